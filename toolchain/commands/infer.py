# SPDX-License-Identifier: Apache-2.0
"""`infer`: rows of inputs through the built model; writes the outputs."""

from __future__ import annotations

from compiler.errors import UserError
from toolchain.comparison import compare
from toolchain.execution import execution_of
from toolchain.report.terminal import Terminal
from toolchain.request import HostRequest, Request
from toolchain.rows import check_output, read_samples, write_outputs


def infer(request: Request | HostRequest) -> None:
    """Runs every row of `input`; writes `output` where given, and compares where the input file has outputs too."""
    terminal, execution = Terminal(request.quiet), execution_of(request)
    if request.input is None:
        raise UserError(
            "no inputs are given", allowed="input=FILE.npz with in0, in1, ... (a row an inference), or FILE.npy"
        )
    if request.output is not None:
        check_output(request.output)  # before a long run
    samples = read_samples(request.input, execution.inputs, execution.outputs)
    terminal.stage("infer", f"{len(samples)} rows of {request.input.name} on {execution.place}")
    outputs = execution.infer(samples)
    if request.output is not None:
        write_outputs(request.output, outputs)
        terminal.stage("write", str(request.output))
    else:
        for number, row in enumerate(outputs[0].reshape(len(samples), -1)):
            terminal.line(f"{number}: {' '.join(f'{value:g}' for value in row[:16])}{' ...' if row.size > 16 else ''}")
    if samples.outputs:
        terminal.line(f"against the outputs in {request.input.name}: {compare(outputs, samples.outputs)}")
