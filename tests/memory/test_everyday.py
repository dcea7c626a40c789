"""Ten everyday facts, what they answer and what they do not, with the built-in model and the default settings."""

from collections.abc import AsyncIterator

import pytest

from quipu import Memory

#: Each fact with a question that it answers.
ANSWERED = {
    "What does Mara eat?": "Mara is vegetarian",
    "Which plan is Tom on?": "Tom is on the Enterprise plan",
    "When do we deploy?": "The deploy runs every Tuesday at 10:00",
    "Does Anna like a dark or a light theme?": "Anna prefers dark mode",
    "What must Lea not eat?": "Ben's daughter Lea is allergic to peanuts",
    "What is the name of the staging database?": "The staging database is called kestrel",
    "Where does Priya live now?": "Priya moved from Pune to Lisbon in March",
    "Which instrument does Jonas play?": "Jonas plays the cello in a string quartet",
    "How often does the wifi password change?": "The office wifi password is rotated on the first of each month",
    "When does Clara see the dentist?": "Clara's dentist appointment is on Friday at 9",
}
#: About the same people and things; nothing answers them.
UNANSWERED = (
    "Where does Tom live?",
    "How old is Mara?",
    "What is Anna's phone number?",
    "Which car does Jonas drive?",
    "What is the name of Ben's wife?",
    "How many employees does the company have?",
    "Which university did Priya attend?",
    "What does Clara do for a living?",
    "Who won the chess tournament?",
)


@pytest.fixture
async def everyday() -> AsyncIterator[Memory]:
    async with Memory(agent_id="assistant", stores=":memory:") as memory:
        await memory.remember_many([{"content": fact} for fact in ANSWERED.values()])
        yield memory


async def test_each_everyday_question_is_answered_by_the_first_hit(everyday: Memory) -> None:
    found = {question: (await everyday.recall(question))[0].content for question in ANSWERED}
    assert found == ANSWERED


async def test_what_nothing_answers_gets_nothing_or_little_faith(everyday: Memory) -> None:
    answers = {question: await everyday.recall(question) for question in UNANSWERED}
    emptied = [question for question, answer in answers.items() if not len(answer)]
    assert len(emptied) >= 5, f"only these are emptied: {emptied}"
    for question, answer in answers.items():
        assert all(hit.relevance < 0.2 for hit in answer), question
