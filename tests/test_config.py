"""Settings: where they come from, what is refused, and that no key is ever printed."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from quipu.config import (
    SETTINGS,
    Loaded,
    Settings,
    cache_dir,
    collected,
    data_dir,
    database_url,
    load,
    without_password,
)
from quipu.errors import InvalidError

MARK = "zqvaluemark"


def in_file(path: Path, text: str, **environment: str) -> Loaded:
    file = path / "config.toml"
    file.write_text(text, "utf-8")
    return load({"QUIPU_CONFIG": str(file), **environment})


def refusal(environment: dict[str, str]) -> InvalidError:
    with pytest.raises(InvalidError) as refused:
        load(environment)
    assert refused.value.reason == "bad_setting"
    return refused.value


def test_every_setting_is_described_and_grouped() -> None:
    for setting in SETTINGS.values():
        assert setting.description.endswith("."), setting.name
        assert setting.variable == "QUIPU_" + setting.name.upper()
    groups = [setting.group for setting in SETTINGS.values()]
    assert list(dict.fromkeys(groups)) == [
        *("Memory", "Client", "Models", "Secrets", "Governance"),
        *("Access", "Server", "Background jobs", "Mirrors", "Protocols"),
    ]
    assert groups == sorted(groups, key=list(dict.fromkeys(groups)).index)


def test_without_anything_the_defaults_hold() -> None:
    loaded = load({})
    assert loaded.settings == Settings()
    assert (loaded.sources, loaded.file, loaded.unknown, loaded.warnings) == ({}, None, {}, ())
    assert (loaded.settings.port, loaded.settings.host, loaded.settings.rate) == (8321, "127.0.0.1", 6000)


def test_the_environment_wins_over_the_file_and_each_value_names_its_source(tmp_path: Path) -> None:
    text = (
        'agent = "planner"\nport = 9000\nmetrics_public = true\nallowed_hosts = ["a.example", ".b.example"]\n'
    )
    loaded = in_file(
        tmp_path, text, QUIPU_PORT="9001", QUIPU_CORS_ORIGINS="https://a.example, https://b.example"
    )
    settings = loaded.settings
    assert (settings.agent, settings.port, settings.metrics_public) == ("planner", 9001, True)
    assert settings.allowed_hosts == ("a.example", ".b.example")
    assert settings.cors_origins == ("https://a.example", "https://b.example")
    file = f"file {tmp_path / 'config.toml'}"
    assert loaded.sources == {
        "agent": file,
        "metrics_public": file,
        "allowed_hosts": file,
        "port": "environment QUIPU_PORT",
        "cors_origins": "environment QUIPU_CORS_ORIGINS",
    }
    assert loaded.file == tmp_path / "config.toml"


def test_an_empty_variable_sets_nothing(tmp_path: Path) -> None:
    assert in_file(tmp_path, "port = 9000\n", QUIPU_PORT="", QUIPU_TOKEN="").settings.port == 9000
    assert in_file(tmp_path, 'store = ""\n').settings.store is None


def test_variables_of_other_systems_are_honoured_after_our_own() -> None:
    others = {"MEMORYWIRE_STORE": "sqlite:///a.db", "MEMORYWIRE_AGENT": "ana"}
    loaded = load(others)
    assert (loaded.settings.store, loaded.settings.agent) == ("sqlite:///a.db", "ana")
    assert loaded.sources["store"] == "environment MEMORYWIRE_STORE"
    assert load({**others, "QUIPU_STORE": "b.db"}).settings.store == "b.db"
    assert database_url({"DATABASE_URL": "postgresql://h/d"}) == "postgresql://h/d"
    assert database_url({"DATABASE_URL": ""}) is None


def test_words_for_content_on_spans_are_those_of_opentelemetry() -> None:
    variable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    for word, shows in {
        **dict.fromkeys(("SPAN_ONLY", "span_and_event", "true", "1"), True),
        **dict.fromkeys(("NO_CONTENT", "EVENT_ONLY", "False", "0", ""), False),
    }.items():
        assert load({variable: word}).settings.telemetry_capture_content is shows, word


def test_what_is_sent_to_a_collector_is_what_opentelemetrys_variables_say() -> None:
    everywhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    traces = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}
    assert collected(Settings(), {"OTEL_SERVICE_NAME": "quipu"}) == frozenset()
    assert collected(Settings(), everywhere) == {"traces", "metrics"}
    assert collected(Settings(), traces) == {"traces"}
    assert collected(Settings(), {**everywhere, "OTEL_TRACES_EXPORTER": "none"}) == {"metrics"}
    assert collected(Settings(telemetry_metrics=False), everywhere) == {"traces"}
    assert collected(Settings(telemetry=False), everywhere) == frozenset()


def test_telemetry_that_is_set_wrongly_warns_and_never_stops_a_start() -> None:
    loaded = load({"QUIPU_TELEMETRY_CONVENTION": MARK, "QUIPU_TELEMETRY": "perhaps", "QUIPU_PORT": "9000"})
    assert (loaded.settings.telemetry, loaded.settings.telemetry_convention) == (True, "proposal")
    assert loaded.settings.port == 9000
    assert loaded.sources == {"port": "environment QUIPU_PORT"}
    assert len(loaded.warnings) == 2
    assert all("telemetry" in warning and MARK not in warning for warning in loaded.warnings)


WRONG = {
    "QUIPU_PORT": ["x", "-1", "65536", "1.5"],
    "QUIPU_POOL_SIZE": ["0"],
    "QUIPU_LOG_LEVEL": ["loud"],
    "QUIPU_METRICS_PUBLIC": ["maybe"],
    "QUIPU_SECRETS": ["ignore"],
    "QUIPU_MAX_RETAIN": ["a year"],
    "QUIPU_EMBEDDER": ["fast"],
    "QUIPU_SWEEP_S": ["-5"],
    "QUIPU_LIMIT_CONTENT_BYTES": ["0", "99999999999"],
}


def test_a_wrong_value_is_refused_with_its_variable_and_without_itself() -> None:
    for variable, texts in WRONG.items():
        for text in texts:
            error = refusal({variable: text})
            assert variable in error.message, text
            assert error.hint == SETTINGS[variable.removeprefix("QUIPU_").lower()].description
    error = refusal({"QUIPU_PORT": MARK, "QUIPU_TELEMETRY": MARK})
    assert (
        MARK not in f"{error.message} {error.hint} {error!r} {error.__cause__} {error.__suppress_context__}"
    )


def test_a_value_may_be_written_in_capitals_where_that_is_usual() -> None:
    assert load({"QUIPU_LOG_LEVEL": "DEBUG"}).settings.log_level == "debug"
    assert load({"QUIPU_INSECURE": "YES"}).settings.insecure


NEAR = {
    "QUIPU_STOER": "QUIPU_STORE",
    "QUIPU_DATABSE": "QUIPU_STORE",
    "QUIPU_STORE_URL": "QUIPU_STORE",
    "QUIPU_AGENT_ID": "QUIPU_AGENT",
    "QUIPU_SWEEP_EVERY_S": "QUIPU_SWEEP_S",
    "QUIPU_OIDC_ISUER": "QUIPU_OIDC_ISSUER",
    "QUIPU_EMBEDER": "QUIPU_EMBEDDER",
    "QUIPU_CONFG": "QUIPU_CONFIG",
    "QUIPU_ZZZZZZZZ": None,
}


def test_a_misspelt_variable_is_a_warning_that_names_the_one_that_was_meant() -> None:
    for name, near in NEAR.items():
        loaded = load({name: MARK, "OTHER_STOER": MARK})
        assert loaded.unknown == {name: near}
        assert len(loaded.warnings) == 1
        assert (near or "quipu config") in loaded.warnings[0]
        assert MARK not in repr(loaded), "its value is nobody's business"


def test_no_variable_that_is_read_counts_as_misspelt() -> None:
    given = {setting.variable: "1" for setting in SETTINGS.values()} | {"_QUIPU_COMPLETE": "x"}
    legal: dict[str, str] = {}
    for name, text in given.items():
        try:
            load({name: text})
            legal[name] = text
        except InvalidError:
            continue
    assert load(legal).unknown == {}
    assert load({"QUIPU_CONFIG": "/dev/null"}).unknown == {}


def test_a_misspelt_key_of_the_file_is_an_error_that_names_the_near_one(tmp_path: Path) -> None:
    for text, near in {
        f'sotre = "{MARK}"\n': "Did you mean store?",
        f'database = "{MARK}"\n': "Did you mean store?",
        f'zzzzzzzz = "{MARK}"\n': "Known: store, ",
        f'[server]\nport = "{MARK}"\n': None,
    }.items():
        with pytest.raises(InvalidError) as refused:
            in_file(tmp_path, text)
        assert refused.value.reason == "bad_setting"
        assert MARK not in f"{refused.value.message} {refused.value.hint}"
        assert str(tmp_path) in refused.value.message
        if near is not None:
            assert (refused.value.hint or "").startswith(near)


def test_a_file_that_cannot_be_read_says_why_without_what_stands_in_it(tmp_path: Path) -> None:
    assert "does not exist" in refusal({"QUIPU_CONFIG": str(tmp_path / "none.toml")}).message
    assert "cannot be read" in refusal({"QUIPU_CONFIG": str(tmp_path)}).message
    for text in (f"token = {MARK}\n", f'token = "{MARK}\n', f"{MARK}\n"):
        with pytest.raises(InvalidError) as refused:
            in_file(tmp_path, text)
        assert MARK not in f"{refused.value.message} {refused.value.hint} {refused.value.__cause__}"
    (tmp_path / "config.toml").write_bytes(b'agent = "\xff"\n')
    assert "UTF-8" in refusal({"QUIPU_CONFIG": str(tmp_path / "config.toml")}).message


def test_a_file_that_nobody_named_may_be_missing(tmp_path: Path) -> None:
    assert load({"XDG_CONFIG_HOME": str(tmp_path)}).file is None
    (tmp_path / "quipu").mkdir()
    (tmp_path / "quipu" / "config.toml").write_text("port = 9\n", "utf-8")
    assert load({"XDG_CONFIG_HOME": str(tmp_path)}).settings.port == 9


def test_what_kubernetes_sets_for_a_service_called_quipu_is_no_setting() -> None:
    cluster = {
        "QUIPU_SERVICE_HOST": "10.0.0.7",
        "QUIPU_SERVICE_PORT_HTTP": "8321",
        "QUIPU_PORT": "tcp://10.0.0.7:8321",
        "QUIPU_PORT_8321_TCP": "tcp://10.0.0.7:8321",
        "QUIPU_PORT_8321_TCP_ADDR": "10.0.0.7",
    }
    loaded = load(cluster)
    assert (loaded.settings.port, loaded.unknown, loaded.sources) == (8321, {}, {})
    assert load({**cluster, "QUIPU_PORT": "99"}).settings.port == 99, "somebody chose it"


SECRETS = {
    "QUIPU_TOKEN": MARK,
    "QUIPU_EMBEDDER_KEY": MARK,
    "QUIPU_EXTRACTOR_KEY": MARK,
    "QUIPU_STORE": f"postgresql://ana:{MARK}@db.example:5432/memory?password={MARK}",
    "QUIPU_REPLICA": f"postgresql://db.example/memory?sslpassword={MARK}#{MARK}",
    "QUIPU_SERVER": f"https://{MARK}@memory.example",
    "QUIPU_EMBEDDER_URL": f"https://u:{MARK}@models.example/v1",
    "QUIPU_EXTRACTOR_URL": f"https://models.example/v1?key={MARK}",
    "QUIPU_AUDIT_ANCHOR": f"https://u:{MARK}@anchor.example/x",
    "QUIPU_MIRRORS": f"mem0://{MARK}@a?api_key={MARK} letta://h/{MARK}?x=1,2",
}


def test_no_key_and_no_password_is_printed() -> None:
    loaded = load(SECRETS)
    settings = loaded.settings
    shown = {name: settings.shown(name) for name in SETTINGS}
    assert MARK not in f"{loaded!r} {loaded} {settings} {shown}"
    assert (shown["token"], shown["store"]) == ("(set)", "postgresql://db.example:5432/memory")
    assert shown["mirrors"] == "mem0://…, letta://…"
    assert settings.token is not None
    assert settings.token.get_secret_value() == MARK
    assert len(settings.mirrors) == 2, "an address may hold a comma"
    assert Settings().shown("token") is None
    assert without_password("host=db password=x") == "(set)"
    assert without_password("/home/ana/memory.db") == "/home/ana/memory.db"


def test_settings_are_frozen_and_given_values_are_checked_like_all_others() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.port = 1  # pyright: ignore[reportAttributeAccessIssue]
    assert settings.with_values(port=1, agent=None).port == 1
    kept = settings.with_values(token=MARK, mirrors="mem0://a letta://b", max_retain="30d")
    assert kept.with_values(port=2).token == kept.token
    wrong: list[dict[str, Any]] = [{"port": 70_000}, {"prot": 1}, {"embedder": MARK}]
    for given in wrong:
        with pytest.raises(InvalidError) as refused:
            settings.with_values(**given)
        assert MARK not in f"{refused.value.message} {refused.value.hint}"


def test_directories_follow_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_dir({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "quipu"
    assert cache_dir(Settings(), {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "quipu"
    assert cache_dir(Settings(cache=tmp_path / "models"), {}) == tmp_path / "models"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_dir({}) == tmp_path / ".local" / "share" / "quipu"
    assert load({"QUIPU_RULES": "~/rules.toml"}).settings.rules == tmp_path / "rules.toml"
    assert str(load({"QUIPU_RULES": "~nobody-here/x"}).settings.rules) == "~nobody-here/x"
