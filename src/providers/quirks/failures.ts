/** How a provider says that an error of its dialect means something else than its format's words would suggest. */
import { type Failure, type FailureKind, fail } from '../../core/failure.ts'
import { type Json, type JsonObject, number, object, text } from '../../core/json.ts'

/** What an error body of OpenAI's shape says, also when it comes in an array (Gemini) or flat (xAI, Mistral). */
export const errorIn = (body: Json | undefined): JsonObject | undefined => {
  const whole = object(Array.isArray(body) ? body[0] : body)
  return object(whole?.error) ?? whole
}

const LONGEST = 1_000
/** Long runs of what keys are made of. Words have no digits, and numbers no letters. */
const TOKEN = /[A-Za-z0-9_\-+/~*]{16,}/g
const looksRandom = (token: string): boolean => /[0-9]/.test(token) && /[A-Za-z]/.test(token)

/** The upstream's own words, bounded, without anything that could be a key. */
export const quoted = (words: string): string =>
  words.slice(0, LONGEST).replaceAll(TOKEN, (token) => (looksRandom(token) ? `***${token.slice(-4)}` : token))

/** A failure of this kind, told in the upstream's words if it had any, else in ours. */
export const meant = (
  kind: FailureKind,
  sentence: string,
  status: number,
  error: JsonObject | undefined,
  words?: string,
): Failure => {
  const said = words ?? text(error?.message)
  const message = said === undefined || said.trim() === '' ? undefined : quoted(said)
  const type = text(error?.type)
  const code = text(error?.code) ?? number(error?.code)?.toString()
  return fail(kind, message ?? sentence, {
    ...(status >= 300 && { status }),
    upstream: {
      ...(type !== undefined && { type }),
      ...(code !== undefined && { code }),
      ...(message !== undefined && { message }),
    },
  })
}

export const TOO_LONG = 'The request is longer than the model can read.'
