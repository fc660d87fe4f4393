#ifndef FREEZE_PARAMETERS_TD
#define FREEZE_PARAMETERS_TD

include "mlir/Pass/PassBase.td"

def FreezeParametersPass : Pass<"freeze-parameters", "::mlir::ModuleOp"> {
  let summary = "Keep the parameters with certain names as they are";
  let description = [{
    Marks parameters whose name contains the text as frozen: they get no gradient,
    no update and no optimizer state. Runs before differentiation. An error where
    no parameter has such a name, or none is left to train.
  }];
  let options = [
    Option<"name", "name", "std::string", "\"\"", "text that names contain">,
  ];
}

#endif // FREEZE_PARAMETERS_TD
