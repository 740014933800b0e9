"""The demo shows what it claims."""

from headwise.demo import run_demo


def test_the_reloaded_model_agrees_where_removing_heads_made_a_difference() -> None:
    result = run_demo()
    assert result.difference < 1e-5 < result.effect
    assert 0 < result.removed < result.heads
    assert result.parameters[1] < result.parameters[0]


def test_the_demo_is_the_same_every_time() -> None:
    assert run_demo() == run_demo()
