"""The networks: sizes by formula, order of layers, gradients, invariances, the factory."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from adacorr.core.validation import InputError
from adacorr.train.nets import MLP, PointNet, SmallCNN, make_factory, preact_resnet, with_dropout
from adacorr.train.nets.pointnet import TNet
from adacorr.train.nets.preact_resnet import BasicBlock, Bottleneck


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def resnet_size(
    blocks: tuple[int, ...], width: int, k: int, bottleneck: bool, channels: int
) -> int:
    """Parameters counted by hand: 9 per 3x3 filter, 2 per normalised channel, no biases."""
    total, inputs = 9 * channels * width, width
    for stage, n in enumerate(blocks):
        w = width * 2**stage
        outputs = 4 * w if bottleneck else w
        for i in range(n):
            if bottleneck:
                total += 2 * inputs + inputs * w + 2 * w + 9 * w * w + 2 * w + w * outputs
            else:
                total += 2 * inputs + 9 * inputs * w + 2 * w + 9 * w * w
            if i == 0 and (stage > 0 or inputs != outputs):
                total += inputs * outputs
            inputs = outputs
    return total + 2 * inputs + inputs * k + k


@pytest.mark.parametrize(
    ("depth", "blocks", "width", "bottleneck"),
    [
        (18, (2, 2, 2, 2), 64, False),
        (34, (3, 4, 6, 3), 64, False),
        (50, (3, 4, 6, 3), 64, True),
        (8, (1, 1, 1), 16, False),
        (20, (3, 3, 3), 16, False),
    ],
)
def test_preact_resnet_has_the_size_of_the_formula(
    depth: int, blocks: tuple[int, ...], width: int, bottleneck: bool
) -> None:
    assert count(preact_resnet(10, depth=depth)) == resnet_size(blocks, width, 10, bottleneck, 3)


def test_preact_resnet18_is_the_known_count_and_the_final_normalisation() -> None:
    """11,171,146 is the count of the widely used version without the final BN of 512 channels."""
    assert count(preact_resnet(10, depth=18)) == 11_171_146 + 2 * 512


def test_preact_resnet_counts_layers() -> None:
    for depth in (8, 18, 34, 50):
        net = preact_resnet(10, depth=depth)
        shortcuts = {id(b.shortcut) for b in net.blocks}
        weighted = [
            m
            for m in net.modules()
            if isinstance(m, nn.Conv2d | nn.Linear) and id(m) not in shortcuts
        ]
        assert len(weighted) == depth


def inputs_of(net: nn.Module, x: torch.Tensor, kind: type) -> dict[nn.Module, torch.Tensor]:
    seen: dict[nn.Module, torch.Tensor] = {}
    hooks = [
        m.register_forward_hook(lambda m, i, o: seen.__setitem__(m, i[0]))
        for m in net.modules()
        if isinstance(m, kind)
    ]
    net(x)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_every_convolution_of_a_block_sees_a_rectified_normalised_input(
    block: type[BasicBlock] | type[Bottleneck],
) -> None:
    net = block(6, 4, 2).eval()
    x = torch.randn(3, 6, 8, 8) - 1
    active = torch.relu(net.norm1(x))
    seen = inputs_of(net, x, nn.Conv2d)
    assert all((value >= 0).all() for value in seen.values())
    torch.testing.assert_close(seen[net.conv1], active)
    assert net.shortcut is not None
    torch.testing.assert_close(seen[net.shortcut], active)


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_a_block_without_weights_is_the_identity(
    block: type[BasicBlock] | type[Bottleneck],
) -> None:
    """Nothing, not even a rectifier, comes after the sum: negative inputs pass unchanged."""
    net = block(4 * block.expansion, 4, 1).eval()
    assert net.shortcut is None
    nn.init.zeros_([m for m in net.modules() if isinstance(m, nn.Conv2d)][-1].weight)
    x = torch.randn(2, 4 * block.expansion, 5, 5)
    torch.testing.assert_close(net(x), x)


def test_preact_resnet_normalises_once_more_before_pooling() -> None:
    net = preact_resnet(3, depth=8).eval()
    x = torch.randn(2, 3, 16, 16)
    by_hand = torch.relu(net.norm(net.blocks(net.stem(x)))).mean(dim=(2, 3))
    torch.testing.assert_close(net(x), net.classifier(by_hand))
    assert net.blocks(net.stem(x)).shape == (2, 64, 4, 4)


@pytest.mark.parametrize("depth", [7, 2, 0, 19])
def test_preact_resnet_refuses_depths_it_does_not_have(depth: int) -> None:
    with pytest.raises(InputError, match="depth: expected 18, 34, 50"):
        preact_resnet(10, depth=depth)


def test_tnet_starts_as_the_identity() -> None:
    net = TNet(3).eval()
    torch.testing.assert_close(net(torch.randn(4, 3, 20)), torch.eye(3).expand(4, 3, 3))


def test_pointnet_ignores_the_order_of_the_points() -> None:
    torch.manual_seed(0)
    net = moved(PointNet(5, feature_transform=True)).eval()
    cloud = torch.randn(2, 30, 3)
    shuffled = cloud[:, torch.randperm(30)]
    torch.testing.assert_close(net(cloud), net(shuffled))
    assert not torch.allclose(net(cloud), net(cloud + 1))


def moved(net: nn.Module) -> nn.Module:
    """Away from the identity transforms, behind whose zero weights no gradient passes."""
    for part in net.modules():
        if isinstance(part, TNet):
            nn.init.normal_(part.matrix.weight, std=0.05)
    return net


SHAPES = {  # samples as the dataset stores them -> a batch as the net sees it
    (20,): (5, 20),
    (32, 3): (5, 32, 3),
    (8, 8, 1): (5, 1, 8, 8),
    (28, 28, 1): (5, 1, 28, 28),
    (32, 32, 3): (5, 3, 32, 32),
    (64, 48, 3): (5, 3, 64, 48),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_picked_net_learns_in_every_parameter(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = moved(make_factory(None, shape)(4))
    out = net(torch.randn(SHAPES[shape]))
    assert out.shape == (5, 4)
    nn.functional.cross_entropy(out, torch.tensor([0, 1, 2, 3, 0])).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_of_one_works_in_eval_mode(shape: tuple[int, ...]) -> None:
    net = make_factory(None, shape)(4).eval()
    out = net(torch.randn(1, *SHAPES[shape][1:]))
    assert out.shape == (1, 4)
    assert torch.isfinite(out).all()


def test_channels_last_gives_the_same_logits() -> None:
    net = preact_resnet(3, depth=8).eval()
    x = torch.randn(2, 3, 16, 16)
    expected = net(x)
    fast = net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    torch.testing.assert_close(fast(x.to(memory_format=torch.channels_last)), expected)


def test_mlp_standardises_columns_of_any_unit() -> None:
    torch.manual_seed(0)
    net = MLP(3, 2)
    x = torch.randn(64, 2)
    torch.testing.assert_close(net(x), net(x * torch.tensor([1e4, 1e-2]) + 5), atol=2e-2, rtol=1e-2)


def test_mlp_survives_a_huge_outlier() -> None:
    net = MLP(3, 2).eval()
    assert net(torch.tensor([[1e30, -1e30]])).abs().max() < 1e3


@pytest.mark.parametrize(
    ("spec", "shape", "kind"),
    [
        ("cnn:filters=4,hidden=8", (12, 12, 3), "SmallCNN"),
        ("mlp:hidden=16", (8, 8, 1), "MLP"),
        ("preact18", (32, 32, 3), "PreActResNet"),
        ("preact:depth=14,width=4", (32, 32, 3), "PreActResNet"),
        ("resnet8", (28, 28, 1), "PreActResNet"),
        ("pointnet:feature_transform=1", (16, 3), "PointNet"),
    ],
)
def test_factory_by_name(spec: str, shape: tuple[int, ...], kind: str) -> None:
    factory = make_factory(spec, shape)
    net = factory(6)
    assert type(net).__name__ == kind
    assert factory(6) is not net


def test_factory_options_reach_the_net() -> None:
    assert count(make_factory("preact:depth=14,width=4", (32, 32, 1))(10)) == resnet_size(
        (2, 2, 2), 4, 10, False, 1
    )
    small = make_factory("cnn:filters=4,hidden=8", (28, 28, 1))(10)
    assert isinstance(small, SmallCNN)
    assert small.classifier.in_features == 8


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("resnet9000", (32, 32, 3), "net: expected one of cnn, mlp"),
        ("cnn", (20,), "net: expected images"),
        ("pointnet", (32, 32, 3), "net: expected point clouds"),
        ("preact:depth=9", (32, 32, 3), "depth: expected 18"),
        ("preact:depth=x", (32, 32, 3), "positive integer for depth, got 'x'"),
        ("preact:depth", (32, 32, 3), "expected options like"),
        ("cnn:wdith=3", (32, 32, 3), "no option wdith"),
        ("no.such.module:make", (20,), "importable module no[.]such"),
        ("torch.nn:NoSuchThing", (20,), "callable NoSuchThing in torch.nn"),
    ],
)
def test_factory_explains_bad_names(spec: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_factory(spec, shape)


def test_factory_imports_the_users_own_net(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("own.nets")
    own.make = lambda k: nn.Linear(3, k)  # pyright: ignore[reportAttributeAccessIssue]
    own.wrong = lambda k: "not a net"  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "own", ModuleType("own"))
    monkeypatch.setitem(sys.modules, "own.nets", own)
    assert make_factory("own.nets:make", (3,))(7).out_features == 7
    with pytest.raises(InputError, match=r"a torch module from own\.nets:wrong, got str"):
        make_factory("own.nets:wrong", (3,))(7)


@pytest.mark.parametrize("shape", SHAPES)
def test_with_dropout_drops_before_the_classifier_only(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = make_factory(None, shape)(4)
    plain = net.eval()(torch.ones(SHAPES[shape]))
    before = list(net.parameters())
    dropped = with_dropout(net, 0.5)
    torch.testing.assert_close(dropped.eval()(torch.ones(SHAPES[shape])), plain)
    assert len(before) == len(list(dropped.parameters()))
    seen = inputs_of(dropped.train(), torch.randn(SHAPES[shape]), nn.Dropout)
    assert any(layer.p == 0.5 for layer in seen)  # pyright: ignore[reportAttributeAccessIssue]


def test_with_dropout_needs_a_linear_layer() -> None:
    assert isinstance(with_dropout(nn.Linear(3, 2), 0.5), nn.Sequential)
    with pytest.raises(InputError, match="expected a linear layer"):
        with_dropout(nn.Sequential(nn.Conv2d(1, 1, 1)), 0.5)


def tiny_resnet(folder: str) -> object:
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="bottleneck"
    )
    model = ResNetModel(config)
    model.save_pretrained(folder)
    return model


def test_pretrained_trunk_comes_from_a_folder(tmp_path: pytest.TempPathFactory) -> None:
    pytest.importorskip("transformers")
    saved = tiny_resnet(str(tmp_path))
    net = make_factory(f"resnet50-pretrained:weights={tmp_path}", (32, 32, 3))(5)
    for name, weight in saved.state_dict().items():  # pyright: ignore[reportAttributeAccessIssue]
        torch.testing.assert_close(net.trunk.state_dict()[name], weight)  # pyright: ignore
    assert net(torch.randn(2, 3, 32, 32)).shape == (2, 5)
    assert net(torch.randn(2, 1, 32, 32)).shape == (2, 5)


def test_pretrained_says_what_is_missing(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"expected config.json and model.safetensors of"):
        make_factory(f"resnet50-pretrained:weights={tmp_path}", (32, 32, 3))(5)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match="expected the package transformers"):
        make_factory("resnet50-pretrained", (32, 32, 3))(5)
