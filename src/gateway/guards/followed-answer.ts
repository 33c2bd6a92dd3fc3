/** Shows members of the list an answer as it is written: a stream in pieces, any other answer whole. */
import type { ChatEvent } from '../../core/chat.ts'
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { AnswerFollower, CompleteAnswer, Guard, WrittenAnswer } from '../../core/guard.ts'
import type { StreamStep, StreamWriter } from '../../core/protocol.ts'

/** Those that follow this answer, in their order. */
export const followersOf = (guards: readonly Guard[], answer: WrittenAnswer): readonly AnswerFollower[] =>
  guards.length === 0 ? NO_FOLLOWERS : guards.flatMap(({ written }) => written?.(answer) ?? [])

export const NO_FOLLOWERS: readonly AnswerFollower[] = []

/** The answer is complete: shows it to its followers. */
export const complete = (followers: readonly AnswerFollower[], answer: CompleteAnswer): void => {
  for (const follower of followers) follower.complete(answer)
}

/** The call is over. */
export const discard = (followers: readonly AnswerFollower[]): void => {
  for (const follower of followers) follower.discard()
}

/** An answer that is one body: shows it to its followers, and returns what they make of it. `events`: null if it has none. */
export const followed = (
  followers: readonly AnswerFollower[],
  body: string,
  events: (() => readonly ChatEvent[]) | null,
): string => {
  if (followers.length === 0) return body
  const all = events?.()
  let text = body
  for (const follower of followers) {
    if (all) follower.events(all)
    text = textOf(follower.piece(text))
  }
  return text
}

/** The writer of a stream with followers. Keep-alives are no part of the answer. */
export class FollowedWriter implements StreamWriter {
  readonly #writer: StreamWriter
  readonly #followers: readonly AnswerFollower[]

  constructor(writer: StreamWriter, followers: readonly AnswerFollower[]) {
    this.#writer = writer
    this.#followers = followers
  }

  push(step: StreamStep): readonly TextOrBytes[] {
    for (const follower of this.#followers) follower.events(step.events)
    return this.#shown(this.#writer.push(step))
  }

  end(): readonly TextOrBytes[] {
    return this.#shown(this.#writer.end())
  }

  keepAlive(): string {
    return this.#writer.keepAlive()
  }

  apart(): string {
    return this.#writer.apart?.() ?? ''
  }

  #shown(pieces: readonly TextOrBytes[]): readonly TextOrBytes[] {
    return pieces.map((piece) => this.#followers.reduce((before, follower) => follower.piece(before), piece))
  }
}
