//===- KernelInterface.td - ops with a kernel of their own ----------------===//

#ifndef KERF_KERNEL_INTERFACE_TD
#define KERF_KERNEL_INTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    A kernel that an op brings along, instead of one that is generated from its
    meaning. Such an op is launched alone: it is neither decomposed nor fused. Its
    meaning is still stated, by decomposition or evaluation: the interpreter and
    the check of layouts run that, and never the kernel.
  }];
  let methods = [
    InterfaceMethod<[{
        The kernel for the CPU at the op's present types, see
        `kerf/Interfaces/KernelInterface.h`; none where a generated one shall do,
        e.g. for other element types. Equal for equal ops.
      }],
      "::std::optional<::kerf::KernelCode>", "getKernel", (ins)>,
  ];
}

def Kerf_Kernel : DeclareOpInterfaceMethods<KernelOpInterface>;

#endif // KERF_KERNEL_INTERFACE_TD
