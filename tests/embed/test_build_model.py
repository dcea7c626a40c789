"""The builder of the model's files: deterministic, quick when they are there, and careful with what it is given."""

import shutil
import stat
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import load_file

from quipu.embed.description import PACKAGED, packaged
from scripts.build_model import LAYERS, SMOOTHED, TENSORS, TOKENIZER, WIDTH, factors, main

GRAPH, VOCABULARY = packaged().graph.name, packaged().vocabulary.name


@pytest.fixture(scope="module")
def smoothed(weights_dir: Path) -> dict[tuple[int, str], NDArray[np.float32]]:
    return factors(load_file(weights_dir / TENSORS))


def test_a_build_from_nothing_gives_the_pinned_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--output", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([GRAPH, VOCABULARY])
    for name in (GRAPH, VOCABULARY):
        assert (tmp_path / name).read_bytes() == (PACKAGED / name).read_bytes()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o644
    assert "wrote" in capsys.readouterr().out


def test_files_that_are_there_are_not_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--weights", str(tmp_path)])  # where no weights are: they are not read
    assert capsys.readouterr().out == f"model: {packaged().name} is there\n"


def test_a_damaged_file_is_built_again(tmp_path: Path) -> None:
    for name in (GRAPH, VOCABULARY):
        shutil.copy(PACKAGED / name, tmp_path / name)
    with (tmp_path / GRAPH).open("r+b") as file:
        file.truncate(1_000)
    main(["--output", str(tmp_path)])
    assert (tmp_path / GRAPH).read_bytes() == (PACKAGED / GRAPH).read_bytes()


@pytest.mark.parametrize("name", [TENSORS, TOKENIZER])
def test_weights_with_one_changed_byte_are_refused(tmp_path: Path, weights_dir: Path, name: str) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    for each in (TENSORS, TOKENIZER):
        (weights / each).symlink_to(weights_dir / each)
    content = bytearray((weights_dir / name).read_bytes())
    content[-10] ^= 1
    (weights / name).unlink()
    (weights / name).write_bytes(content)
    with pytest.raises(SystemExit, match="SHA-256 differs"):
        main(["--weights", str(weights), "--output", str(tmp_path / "model")])
    assert not (tmp_path / "model").exists()


def test_a_directory_without_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"model\.safetensors cannot be read"):
        main(["--weights", str(tmp_path), "--output", str(tmp_path / "model")])


def test_the_graph_is_a_valid_file_without_anything_of_this_machine() -> None:
    model = onnx.load(PACKAGED / GRAPH)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 20), ("com.microsoft", 1)]
    assert model.ir_version == 9
    assert list(model.metadata_props) == []
    onnx.checker.check_model(model)


def test_no_sum_of_two_products_leaves_sixteen_bits() -> None:
    # Processors without VNNI add two products of a byte and a weight in 16 bits, and stop at their end.
    graph = onnx.load(PACKAGED / GRAPH).graph
    constants = {constant.name: constant for constant in graph.initializer}
    products = [node for node in graph.node if node.op_type == "DynamicQuantizeMatMul"]
    assert len(products) == 3 * LAYERS
    for product in products:
        codes = numpy_helper.to_array(constants[product.input[1]]).astype(np.int64)
        assert codes.min() < -60, "the whole range is used"
        assert 2 * 255 * np.abs(codes).max() <= np.iinfo(np.int16).max


def test_factors_are_whole_quarters_of_an_octave_so_that_processors_agree(
    smoothed: dict[tuple[int, str], NDArray[np.float32]],
) -> None:
    assert set(smoothed) == {(layer, name) for layer in range(LAYERS) for name in SMOOTHED}
    for factor in smoothed.values():
        quarters = 4 * np.log2(factor.astype(np.float64))
        assert np.abs(quarters - np.rint(quarters)).max() < 1e-5
        assert (factor.dtype, factor.shape) == (np.float32, (WIDTH,))


def test_a_few_channels_are_made_smaller_and_nothing_on_the_whole(
    smoothed: dict[tuple[int, str], NDArray[np.float32]],
) -> None:
    for (_, name), factor in smoothed.items():
        assert abs(float(np.log2(factor).mean())) < 0.1
        if name == "widen":
            assert 1 <= np.count_nonzero(factor > 2 * np.median(factor)) < WIDTH / 10
