# SPDX-License-Identifier: Apache-2.0
"""The whole compiler: model bytes and a target in, a `CompiledModel` out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from compiler.arena import ArenaPlan, plan_arena
from compiler.artifact import ArenaTensor, CompiledModel, DispatchInfo, Port, TestVector
from compiler.codegen.objects import Accessor, ArenaAddress, BoundCall, Program, constants_of, generate_objects
from compiler.costs import shipped_costs
from compiler.frontends.tflite import read_tflite
from compiler.fusion import scheduled
from compiler.graph import Graph, Tensor
from compiler.isa import Isa, load_isa
from compiler.kernels.kernel import OUTPUT, KernelCall, Place, Role
from compiler.kernels.portable.copies import set_bytes
from compiler.model import Model
from compiler.passes import AS_STATED, run_passes
from compiler.reference import outputs_of_rows
from compiler.schedule import Dispatch, Schedule
from compiler.selftest import generate_inputs
from compiler.settings import DEFAULT_SETTINGS, Settings
from compiler.support import check_supported
from compiler.target import Target

Progress = Callable[[str], None]
SELF_TEST_SEEDS = (1, 2)


def compile_model(
    model: Model, target: Target, progress: Progress = lambda _: None, settings: Settings = DEFAULT_SETTINGS
) -> CompiledModel:
    """Compiles a model for a target; `progress` is told each stage's name.

    Raises UserError (UnsupportedModel with all reasons) where the model cannot be compiled.
    """
    graph = prepare(model, progress)
    progress("reference")
    return compile_graph(graph, model, target, _self_tests(as_stated(model)), progress, settings)


def prepare(model: Model, progress: Progress = lambda _: None) -> Graph:
    """The model's graph as it will be compiled: read, simplified, and known to be supported. Raises UserError."""
    progress("read")
    source = read_tflite(model.data, model.name)
    progress("passes")
    graph = run_passes(source)
    check_supported(graph, model.name)
    return graph


def as_stated(model: Model) -> Graph:
    """The graph of a model that `prepare` accepts, with the operators of its file: the oracle of the outputs, which no
    fusion and no removal of channels has touched."""
    return run_passes(read_tflite(model.data, model.name), AS_STATED)


def _self_tests(graph: Graph) -> tuple[TestVector, ...]:
    """Outputs that the NumPy reference computes for inputs which the firmware can draw for itself."""
    tensors = [graph.tensor(i) for i in graph.inputs]
    rows = (generate_inputs(tensors, seed) for seed in SELF_TEST_SEEDS)
    return tuple(
        TestVector(seed, tuple(output.tobytes() for output in outputs))
        for seed, outputs in zip(SELF_TEST_SEEDS, outputs_of_rows(graph, rows), strict=True)
    )


def compile_graph(
    graph: Graph,
    model: Model,
    target: Target,
    vectors: tuple[TestVector, ...] = (),
    progress: Progress = lambda _: None,
    settings: Settings = DEFAULT_SETTINGS,
) -> CompiledModel:
    """Compiles a graph that is verified and supported: schedule, arena, code."""
    progress("schedule")
    settings = replace(settings, costs=shipped_costs(target.isa).joined(settings.costs))
    schedule = scheduled(graph, load_isa(target), settings, len(model.data))
    progress("arena")
    plan, inputs_kept = _plan(schedule, settings.banks)
    offsets = dict(enumerate(plan.offsets))
    steps = tuple(_bind(d, offsets, len(schedule.buffer_bytes)) for d in schedule.dispatches)
    reset = _reset(schedule, offsets, load_isa(target))
    ports_in = _ports(schedule, plan, model.prefix, "input", graph.inputs, graph.input_names)
    ports_out = _ports(schedule, plan, model.prefix, "output", graph.outputs, graph.output_names)
    progress("code")
    objects = generate_objects(
        Program(
            model.prefix,
            max(plan.bytes, 16),
            steps,
            tuple(Accessor(p.symbol, ArenaAddress(p.offset)) for p in (*ports_in, *ports_out)),
            reset or None,
            plan.walls,
        ),
        target,
    )
    return CompiledModel(
        name=model.name,
        prefix=model.prefix,
        sha256=hashlib.sha256(model.data).hexdigest(),
        target_core=target.core,
        inputs=ports_in,
        outputs=ports_out,
        inputs_kept=inputs_kept,
        stateful=bool(reset),
        arena_bytes=max(plan.bytes, 16),
        arena_lower_bound=plan.lower_bound,
        arena_tensors=tuple(
            ArenaTensor(b.name, o, b.bytes, b.first, b.last)
            for b, o in zip(plan.buffers, plan.offsets, strict=True)
            if b.bytes
        ),
        constants_bytes=sum(len(c.data) for c in constants_of([*(call for step in steps for call in step), *reset])),
        dispatches=tuple(_dispatch_info(schedule, d, step) for d, step in zip(schedule.dispatches, steps, strict=True)),
        objects=objects,
        vectors=vectors,
        notes=graph.notes,
        arena_walls=plan.walls,
    )


def _plan(schedule: Schedule, banks: tuple[int, ...]) -> tuple[ArenaPlan, bool]:
    """The smallest plan; inputs survive `invoke` where that costs nothing. Where memory is so short that the arena lies
    in several banks, they do not."""
    if banks:
        return plan_arena(schedule.lifetimes(False), schedule.sharings(False), banks=banks), False
    plan, keeping = (plan_arena(schedule.lifetimes(keep), schedule.sharings(keep)) for keep in (False, True))
    return (keeping, True) if keeping.bytes <= plan.bytes else (plan, False)


def _bind(dispatch: Dispatch, offsets: dict[int, int], buffers: int) -> tuple[BoundCall, ...]:
    """Places become arena addresses. The scratch buffer of dispatch d follows the tensor buffers, at number d."""

    def address(place: Place) -> ArenaAddress:
        if place.role is Role.SCRATCH:
            return ArenaAddress(offsets[buffers + dispatch.index] + place.offset)
        operands = dispatch.reads if place.role is Role.INPUT else dispatch.writes
        region = operands[place.index]
        if region is None:
            raise ValueError(f"{dispatch.op}: place {place} is not in the arena")
        return ArenaAddress(offsets[region.buffer] + region.offset + place.offset)

    return tuple(_bound(call, address) for call in dispatch.lowered.calls)


def _bound(call: KernelCall, address: Callable[[Place], ArenaAddress]) -> BoundCall:
    return BoundCall(call.kernel, tuple(address(a) if isinstance(a, Place) else a for a in call.arguments))


def _reset(schedule: Schedule, offsets: dict[int, int], isa: Isa) -> tuple[BoundCall, ...]:
    """The calls that give variables their first values."""

    def call(tensor: int, offset: int) -> BoundCall:
        value = schedule.graph.tensor(tensor).reset_value.tobytes()
        return _bound(set_bytes(isa, OUTPUT, value), lambda place: ArenaAddress(offset + place.offset))

    return tuple(call(tensor, offsets[buffer]) for tensor, buffer in schedule.state.items())


def _ports(
    schedule: Schedule, plan: ArenaPlan, prefix: str, kind: str, tensors: tuple[int, ...], names: tuple[str, ...]
) -> tuple[Port, ...]:
    def port(number: int, tensor: Tensor) -> Port:
        quantization, region = tensor.quantization, schedule.region_of[tensor.index]
        return Port(
            symbol=f"{prefix}_{kind}_{number}",
            name=names[number] if names else tensor.name,
            dtype=tensor.dtype,
            shape=tensor.shape,
            bytes=tensor.bytes,
            offset=plan.offsets[region.buffer] + region.offset,
            scales=quantization.scales if quantization else (),
            zero_points=quantization.zero_points if quantization else (),
        )

    return tuple(port(number, schedule.graph.tensor(index)) for number, index in enumerate(tensors))


def _dispatch_info(schedule: Schedule, dispatch: Dispatch, step: tuple[BoundCall, ...]) -> DispatchInfo:
    last = dispatch.operators[-1]
    return DispatchInfo(
        index=dispatch.index,
        operators=tuple(operator.index for operator in dispatch.operators if operator.index >= 0),
        op=dispatch.op,
        name=schedule.graph.tensor((*last.outputs, *last.inputs)[0]).name,
        kernel=" + ".join(dict.fromkeys(call.kernel.name for call in step)),
        macs=dispatch.lowered.macs,
        constants_bytes=sum(len(c.data) for c in constants_of(step)),
        scratch_bytes=dispatch.lowered.scratch_bytes,
        reads=tuple(schedule.buffer_names[r.buffer] for r in dispatch.reads if r is not None),
        writes=tuple(schedule.buffer_names[w.buffer] for w in dispatch.writes),
    )
