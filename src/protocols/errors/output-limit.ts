/** Reads from a refusal how many output tokens a model allows. */
import type { Failure } from '../../core/failure.ts'

/** The member or what it limits. */
const ABOUT_OUTPUT =
  /max_?(?:(?:completion|output|new)_?)?tokens|max(?:imum)? tokens|(?:output|completion) tokens|num_predict/i
/** A figure that is not part of a name or a version, such as `llama-3.1-8b` or `gpt-4-32k`. */
const FIGURE = String.raw`(?<![\w.-])([0-9][0-9,]{0,11})(?![\w-]|\.[0-9])`
/** `[1, 8192]`, `[1, 8193)`, `between 1 and 8192`, `1 (inclusive) to 8193 (exclusive)`. */
const RANGE = /(?:\[ ?[0-9]{1,3},|between [0-9]{1,3} and) ?([0-9]{1,9})\b ?([\])]?)/i
const EXCLUSIVE = /to ([0-9]{1,9}) \(exclusive\)/i
/** Words before the limit. */
const LIMIT = new RegExp(
  `(?:at most|max(?:imum)?|up to|less than or equal to|<=|≤|>|limit|cannot exceed|exceeds?|is)[^0-9\\n]{0,40}?${FIGURE}`,
  'gi',
)
const LESS_THAN = new RegExp(`(?:less|lower) than [^0-9\\n]{0,20}?${FIGURE}`, 'i')

/** The most output tokens that the model allows according to its refusal of `sent`. Undefined: it says nothing about them. */
export const outputLimitIn = ({ upstream, message, param = '' }: Failure, sent: number): number | undefined => {
  // Xiaomi states the sentence as `param`.
  const words = `${upstream?.message ?? message} ${param}`.slice(0, MAX_LENGTH)
  if (!ABOUT_OUTPUT.test(words)) return undefined
  const limit = rangeEnd(words) ?? limitAfterWords(words, sent)
  return limit !== undefined && isLimit(limit, sent) ? limit : undefined
}

/** `You requested up to 65536 tokens, but can only afford 30104`: OpenRouter (can1357/oh-my-pi#9569, QwenLM/qwen-code#73). */
const AFFORDABLE = /requested up to [0-9]{1,9} tokens, but can only afford ([0-9]{1,9})\b/i
/** `tokens per minute (TPM): Limit 8000, Requested 32979`: Groq (zeeyado/koassistant.koplugin#106) and OpenAI. */
const PER_MINUTE = /\blimit:? ([0-9]{1,9}), requested:? ([0-9]{1,9})\b/i

/**
 * The most output tokens for which the account has credit, or a minute's limit has room, according to a refusal of `sent`
 * (undefined: the request had no output limit). Undefined: it states none.
 */
export const affordableOutput = ({ kind, upstream }: Failure, sent: number | undefined): number | undefined => {
  const words = (upstream?.message ?? '').slice(0, MAX_LENGTH)
  const [, affordable] = kind === 'quota' ? (AFFORDABLE.exec(words) ?? []) : []
  if (affordable !== undefined)
    return read(affordable) < (sent ?? Number.POSITIVE_INFINITY) ? read(affordable) : undefined
  const [, limit, requested] = kind === 'token_rate' ? (PER_MINUTE.exec(words) ?? []) : []
  if (limit === undefined || requested === undefined || sent === undefined) return undefined
  // The rest is the prompt, with what the server adds to it.
  const prompt = read(requested) - sent
  return prompt >= 0 && read(limit) - prompt < sent ? read(limit) - prompt : undefined
}

const rangeEnd = (words: string): number | undefined => {
  const [, end, bracket] = RANGE.exec(words) ?? []
  if (end !== undefined) return read(end) - (bracket === ')' ? 1 : 0)
  const [, above] = EXCLUSIVE.exec(words) ?? []
  return above === undefined ? undefined : read(above) - 1
}

const limitAfterWords = (words: string, sent: number): number | undefined => {
  const figures = [...words.matchAll(LIMIT)].map(([, figure = '']) => read(figure))
  const [, below] = LESS_THAN.exec(words) ?? []
  return figures.find((figure) => isLimit(figure, sent)) ?? (below === undefined ? undefined : read(below) - 1)
}

const MAX_LENGTH = 2_000
/** Smaller figures are of other things. */
const LEAST = 16

const isLimit = (figure: number, sent: number): boolean => figure >= LEAST && figure < sent
const read = (figure: string): number => Number(figure.replaceAll(',', ''))
