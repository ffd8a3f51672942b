"""What engines have in common, as tests."""

import pytest

pytest.register_assert_rewrite("tests.engines.conformance", "tests.engines.fused", "tests.engines.judge")
