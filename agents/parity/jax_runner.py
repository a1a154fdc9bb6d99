"""Runs StableHLO programs on JAX's CPU client for `tpu-tune parity`.

One request a line on standard input, one answer a line on standard output, both JSON; programs and
arrays are files in a folder that the caller made. Whatever else prints goes to standard error.
"""

import json
import os
import resource
import sys

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

memory = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

# Element types as XLA names them, with NumPy's names.
DTYPES = {
    "pred": "bool",
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8e5m2": "float8_e5m2",
    "f8e4m3": "float8_e4m3",
    "f8e3m4": "float8_e3m4",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e4m3fnuz": "float8_e4m3fnuz",
}
NAMES = {numpy_name: name for name, numpy_name in DTYPES.items()}


class Runner:
    def __init__(self):
        import jax
        import jaxlib
        import ml_dtypes
        import numpy
        from jaxlib import xla_client

        jax.config.update("jax_enable_x64", True)
        self.jax, self.numpy, self.ml_dtypes, self.xla = jax, numpy, ml_dtypes, xla_client
        self.device = jax.devices("cpu")[0]
        self.version = f"jax {jax.__version__}, jaxlib {jaxlib.__version__}"
        self.programs = []
        try:
            # Programs may call LAPACK; JAX sets it up only when it traces such a call itself.
            from jaxlib import lapack

            lapack._lapack.initialize()
        except (ImportError, AttributeError):
            pass

    def dtype(self, name):
        name = DTYPES[name]
        return self.numpy.dtype(getattr(self.ml_dtypes, name, name))

    def translate(self, ask):
        """Any form of a program as StableHLO text."""
        from jax._src.interpreters import mlir
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        with open(ask["path"], "rb") as file:
            code = file.read()
        if ask["kind"] == "hlo-text":
            module = self.xla.hlo.hlo_module_from_text(code.decode())
            code = module.as_serialized_hlo_module_proto()
        if ask["kind"].startswith("hlo"):
            computation = self.xla.XlaComputation(code)
            code = self.xla._xla.mlir.xla_computation_to_mlir_module(computation)
        context = mlir.make_ir_context()
        with context:
            try:
                module = stablehlo.deserialize_portable_artifact(context, code)
            except Exception:
                module = ir.Module.parse(code)
            text = str(module)
        with open(ask["to"], "w", encoding="utf-8") as file:
            file.write(text)
        return {"answer": "translated"}

    def load(self, ask):
        with open(ask["path"], encoding="utf-8") as file:
            text = file.read()
        client = self.device.client
        options = self.xla.CompileOptions()
        if hasattr(client, "compile_and_load"):
            devices = self.xla.DeviceList((self.device,))
            program = client.compile_and_load(text, devices, options)
        else:
            program = client.compile(text, options)
        self.programs.append(program)
        return {"answer": "loaded", "program": len(self.programs) - 1}

    def run(self, ask):
        numpy = self.numpy
        arguments = []
        for array in ask["arguments"]:
            values = numpy.fromfile(array["path"], dtype=self.dtype(array["dtype"]))
            arguments.append(self.jax.device_put(values.reshape(array["dims"]), self.device))
        program = self.programs[ask["program"]]
        results = program.execute_sharded(arguments)
        results = results.disassemble_into_single_device_arrays()
        told = []
        for index, (result,) in enumerate(results):
            values = numpy.ascontiguousarray(numpy.asarray(result))
            path = os.path.join(ask["folder"], f"result{index}")
            values.tofile(path)
            told.append({"path": path, "dtype": NAMES[values.dtype.name], "dims": result.shape})
        return {"answer": "ran", "results": told}


def tell(answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main():
    try:
        runner = Runner()
    except Exception as error:
        tell({"answer": "failed", "message": f"{type(error).__name__}: {error}"})
        return
    tell({"answer": "ready", "version": runner.version})
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            tell(getattr(runner, ask["ask"])(ask))
        except Exception as error:
            tell({"answer": "failed", "message": str(error) or type(error).__name__})


main()
