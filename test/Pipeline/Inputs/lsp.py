"""Talks to kerf-lsp-server: initialize, open a model, hover over an op; prints the answers."""
import json
import subprocess

MODEL = """kerf.model @m(%x: tensor<4xf32>) {
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}
"""


def message(method, params, number=None):
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        body["id"] = number
    text = json.dumps(body)
    return f"Content-Length: {len(text)}\r\n\r\n{text}"


def main():
    uri = "test:///model.mlir"
    place = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 8}}
    document = {"uri": uri, "languageId": "mlir", "version": 1, "text": MODEL}
    requests = (
        message("initialize", {"processId": None, "capabilities": {}}, 0)
        + message("textDocument/didOpen", {"textDocument": document})
        + message("textDocument/hover", place, 1)
        + message("shutdown", None, 2)
        + message("exit", None)
    )
    run = subprocess.run(["kerf-lsp-server"], input=requests, capture_output=True, text=True, timeout=60)
    for part in run.stdout.split("Content-Length:"):
        if '"id":0' in part:
            print("capabilities" if "hoverProvider" in part else "no capabilities")
        if '"id":1' in part:
            print("hover", part.split("\r\n\r\n")[-1].replace("\n", " "))


main()
