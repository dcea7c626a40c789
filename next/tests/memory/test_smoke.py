from quipu.memory.operations import *


async def test_all(ledger):
    from tests.fixtures.memories import open_memory

    memory = open_memory(ledger)
    a = await memory(REMEMBER, content="Ana lives in Lisbon", tags=["home"])
    print(a)
    r = await memory(RECALL, query="where does Ana live?", min_relevance="off")
    print(r)
    assert r[0].id == a.id
    u = await memory(UPDATE, id=a.id, content="Ana lives in Porto")
    assert u.version == 2
    g = await memory(GET, id=a.id)
    assert g.content == "Ana lives in Porto" and g.tags == ("home",)
    h = await memory(HISTORY, id=a.id)
    assert [v.version for v in h.versions] == [1, 2]
    l = await memory(LIST)
    assert [x.id for x in l.records] == [a.id]
    f = await memory(FORGET, ids=[a.id])
    assert f.forgotten_ids == (a.id,)
    assert not (await memory(RECALL, query="Ana", min_relevance="off")).results
    await memory(RESTORE, id=a.id)
    assert (await memory(RECALL, query="Ana", min_relevance="off")).results
    b = await memory(REMEMBER, content="Ana loves fado")
    m = await memory(MERGE, canonical=a.id, duplicates=[b.id], strategy="merge_content")
    assert m.merged_count == 1
    e = await memory(FORGET, ids=[a.id], hard_delete=True)
    print(e)
    many = await memory(REMEMBER_MANY, items=[{"content": f"fact {n}"} for n in range(20)])
    assert all(x.response for x in many.results)
    x = await memory(EXPIRE, policy={"type": "semantic"}, action="archive")
    assert x.matched_count == 20
    s = await memory(CREATE_STORE, name="team", scope="team")
    assert len((await memory(LIST_STORES)).stores) == 2
    await memory(DELETE_STORE, name="team", confirm="team")
    k1 = await memory(REMEMBER, content="Bob's city is Rome", key="city")
    k2 = await memory(REMEMBER, content="Bob's city is Oslo", key="city")
    assert k2.superseded == (k1.id,)
    r = await memory(RECALL, query="Bob's city", min_relevance="off")
    assert [h.id for h in r] == [k2.id]
    once = await memory(REMEMBER, content="again", idempotency_key="k")
    again = await memory(REMEMBER, content="again", idempotency_key="k")
    assert once.id == again.id and again.replayed and again.seq == once.seq
