"""Small files in the forms of the published sets."""

from typing import Any

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bo",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "I keep bees"},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Look", "blip_caption": "a photo of a cat"},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "I sold the boat"}],
            "session_2_date_time": "9:05 am on 10 May, 2023",
        },
        "qa": [
            {
                "question": "What does Ada keep?",
                "answer": "bees",
                "evidence": ["D1:1", "D7:9"],
                "category": 4,
            },
            {
                "question": "What did Ada sell?",
                "adversarial_answer": "boat",
                "evidence": ["D2:1"],
                "category": 5,
            },
            {"question": "Where is the boat?", "answer": "gone", "evidence": ["D9:9"], "category": 1},
        ],
    }
]
BEAM: list[dict[str, Any]] = [
    {
        "chat": "1",
        "turns": [
            {"id": 0, "role": "user", "time": "March-15-2024", "content": "The answer takes 300 ms."},
            {"id": 1, "role": "assistant", "time": None, "content": "That is slow; try a cache."},
            {"id": 2, "role": "user", "time": "April-05-2024", "content": "Now the answer takes 250 ms."},
        ],
        "questions": [
            {
                "ability": "knowledge_update",
                "question": "How long does the answer take?",
                "source_ids": [0, 2],
                "original_ids": [0],
                "updated_ids": [2],
                "answer": "250 ms",
            },
            {"ability": "abstention", "question": "Who wrote the tests?", "source_ids": []},
            {"ability": "summarization", "question": "What happened?", "source_ids": []},
        ],
    }
]
CONFLICTS: list[dict[str, Any]] = [
    {
        "name": "facts",
        "facts": ["Ada lives in Rome.", "Bo plays golf.", "Ada lives in Oslo."],
        "questions": [{"question": "Where does Ada live?", "answers": ["Oslo"]}],
    }
]
FRIENDSQA: dict[str, Any] = {
    "data": [
        {
            "title": "scene 1",
            "paragraphs": [
                {
                    "utterances:": [
                        {"uid": 0, "speakers": ["Ross"], "utterance": "Breathe ."},
                        {"uid": 1, "speakers": ["Monica", "Ross"], "utterance": "No !"},
                    ],
                    "qas": [
                        {
                            "id": "1",
                            "question": "Who says no ?",
                            "answers": [{"answer_text": "No !", "utterance_id": 1}],
                        }
                    ],
                }
            ],
        },
        {
            "title": "scene 2",
            "paragraphs": [
                {"utterances:": [{"uid": 0, "speakers": ["Joey"], "utterance": "Hey ."}], "qas": []}
            ],
        },
    ]
}
LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What does the user keep?",
        "answer": "bees",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2023/05/19 (Fri) 11:30", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I keep bees.", "has_answer": True},
                {"role": "assistant", "content": "How nice."},
            ],
            [{"role": "user", "content": "What is the capital of Peru?"}],
        ],
        "answer_session_ids": ["s1"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "single-session-user",
        "question": "What is the name of the user's hamster?",
        "answer": "It was not mentioned.",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["s3"],
        "haystack_dates": ["2023/05/21 (Sun) 08:00"],
        "haystack_sessions": [[{"role": "user", "content": "I have a cat."}]],
        "answer_session_ids": ["s3"],
    },
]
