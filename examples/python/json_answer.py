"""An answer that is a pydantic model: the engine lets nothing else come.

usage: python json_answer.py [MODEL]
"""
import sys
from typing import Annotated, List

import pydantic

import quipu


class Character(pydantic.BaseModel):
    """Nothing of it may go on for ever: an answer has max_new_tokens at most."""
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=1, le=99)
    friends: List[Annotated[str, pydantic.Field(max_length=20)]] = pydantic.Field(max_length=2)


def main() -> None:
    generator = quipu.Generator(quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo"))
    constraint = quipu.json_schema(Character, whitespace="compact")
    result = generator.generate("A person in a story, as JSON: ", seed=3, filters=[constraint], max_new_tokens=200)
    if result.finish == "length":
        sys.exit("the answer was cut off")
    print(repr(Character.model_validate_json(result.text)))


if __name__ == "__main__":
    main()
