/**
 * Recognises by shape that a prompt does not fit into a context window, and reads the figures of such an error. Servers
 * word it in dozens of ways; common to them are the context, prompt or input as subject, and an excess.
 */
import type { ContextOverflow } from '../../core/failure.ts'

/** A length that only a context has. */
const CONTEXT =
  /context[ _-]?(?:length|window|size|limit|overflow)|max(?:imum)?[ _](?:model|sequence|seq|prompt|input)[ _]?len|(?:input|prompt|sequence) (?:length|token count)|(?:input|prompt)s?`? tokens|max(?:imum)?(?: allowed)? number of (?:input )?tokens|max_seq_len|\bn_ctx\b/i

/** An excess of it. */
const EXCESS =
  /exceed|too (?:long|large|big|many)|longer|larger|greater|maximum|\bonly\b|\bjust\b|overflow|not enough|limit|reduce|shorten|should be|up to|must (?:be|have)|<=/i

/** The prompt as subject: `Input is too long for requested model`. */
const LONG_PROMPT =
  /\b(?:prompt|inputs?|context|conversation|chat history)(?: (?:text|length|size|tokens?))? (?:(?:is|are|was|were) )?(?:much |far )?too (?:long|large|big)\b|\btoo many (?:input |prompt )?tokens\b/i

/** `Prompt exceeds max length`, `tokens in the prompt cannot exceed 4081`, `exceeded model token limit`. */
const EXCEEDS =
  /\b(?:prompt|input|context|conversation|tokens?)\b[^.\n]{0,80}\bexceed|\bexceed(?:s|ed|ing)?\b[^.\n]{0,40}\b(?:token limit|max(?:imum)? (?:tokens|length))/i

/** Limits of other things: of a minute, of the answer alone, of a picture, file or member. */
const OTHER_LIMIT =
  /\bper (?:second|minute|min|hour|day)\b|\bTP[MD]\b|rate.?limit|quota|please wait|(?:string|array) too long/i
const MEDIA = /\b(?:images?|pdf|pages?|audio|video|files?|pixels|bytes|MB)\b/i
const OUTPUT_LIMIT =
  /\bmax(?:imum)?[ _]?(?:completion[ _]?|output[ _]?|new[ _]?)?tokens?\b|\b(?:completion|output) tokens\b/i
const PROMPT = /\b(?:prompt|inputs?|messages|context (?:length|limit|window|size)|conversation)\b/i

/** Whether the message says that the prompt, or the prompt with the requested output, exceeds the context window. */
export const isContextOverflow = (message: string): boolean => {
  if (message === '' || OTHER_LIMIT.test(message)) return false
  if (OUTPUT_LIMIT.test(message) && !PROMPT.test(message)) return false
  if (CONTEXT.test(message) && EXCESS.test(message)) return true
  return (LONG_PROMPT.test(message) || EXCEEDS.test(message)) && !MEDIA.test(message)
}

/** Prompt, requested output and window in one sum: `189136 + 20000 > 204648`. */
const SUM = /(\d{1,10}) \+ (\d{1,10}) > (\d{1,10})/

/** Texts before or after the window's figure, the most exact first. */
const WINDOW: readonly RegExp[] = [
  /(?:context|max(?:imum)? (?:supported )?(?:prompt|input|sequence|model))[ _-]?(?:length|window|size|limit|len)[^0-9\n]{0,40}?(\d[\d,]{1,12})/gi,
  /(\d[\d,]{1,12}) (?:tokens? )?(?:max(?:imum)?|limit)\b/gi,
]
/** `Range of input length should be [1, 98304]`. */
const RANGE = /length should be \[ ?\d{1,3}, ?(\d{3,12})\]/i
/** Words before the window's figure that also precede others. */
const LIMIT: readonly RegExp[] = [
  /(?:limit|max(?:imum|_seq_len)?|up to|at most|\bonly|\bjust|<=|exceeds?)[^0-9\n]{0,40}?(\d[\d,]{1,12})/gi,
]
/** The figure of the prompt. */
const PROMPT_TOKENS: readonly RegExp[] = [
  /(\d[\d,]{1,12}) (?:tokens? )?(?:in (?:the|your) (?:messages|prompt|input)|(?:of )?(?:text )?(?:input|prompt)\b|`inputs`|from the input)/gi,
  /\b(?:prompt|inputs?|messages?|request|conversation|first|received|requested)\b[^0-9\n]{0,40}?(\d[\d,]{1,12})/gi,
]
/** The figure of the requested output. */
const OUTPUT_TOKENS: readonly RegExp[] = [
  /(\d[\d,]{1,12}) (?:tokens? )?(?:(?:in|for|of) +(?:the )?completion|output\b|completion\b|`max_new_tokens`)/gi,
  /(?:max_(?:completion_|new_)?tokens'?|generation length)[^0-9\n]{0,40}?(\d[\d,]{1,12})/gi,
]

/** The figures of an overflow message; those that it does not state are left out. */
export const overflowIn = (stated: string): ContextOverflow => {
  // MiniMax ends messages without figures with an error number.
  const hasFigures = /token/i.test(stated) || figuresIn(stated).length > 1
  const message = hasFigures ? stated : stated.replace(/ \(\d{4}\)$/, '')
  const [, prompt, output, sum] = SUM.exec(message) ?? []
  if (prompt && output && sum)
    return { window: Number(sum), promptTokens: Number(prompt), requestedOutput: Number(output) }
  const [, most = ''] = RANGE.exec(message) ?? []
  if (most !== '') return { window: Number(most) }
  const figures = figuresIn(message)
  const largest = Math.max(0, ...figures)
  // An overflow states a figure above the window, or several that add up to more.
  const isExceeded = (window: number) =>
    largest > window || figures.reduce((sum, figure) => sum + figure, -window) > window
  const isWindow = (window: number) => figures.length === 1 || isExceeded(window)
  const window = firstFigure(message, WINDOW, isWindow) ?? firstFigure(message, LIMIT, isExceeded)
  const requestedOutput = firstFigure(message, OUTPUT_TOKENS, (one) => one !== window)
  const prompted = firstFigure(message, PROMPT_TOKENS, (one) => one !== window && one !== requestedOutput)
  const promptTokens = prompted ?? (window !== undefined && largest > window ? largest : undefined)
  return {
    ...(window !== undefined && { window }),
    ...(promptTokens !== undefined && { promptTokens: withoutOutput(message, promptTokens, requestedOutput) }),
    ...(requestedOutput !== undefined && { requestedOutput }),
  }
}

/** Some state the total as requested, with the output but not the prompt beside it. */
const withoutOutput = (message: string, stated: number, output: number | undefined): number =>
  output !== undefined && stated > output && new RegExp(`total of[^0-9\\n]{0,20}${stated}\\b`).test(message)
    ? stated - output
    : stated

/** Figures without those in model names, such as `gpt-4-32768`, and without fractions. */
const figuresIn = (message: string): readonly number[] => [
  ...new Set([...message.matchAll(/(?<![\w.-])\d[\d,]{1,12}(?![\w.-]*[a-z-])/gi)].map(([figure]) => read(figure))),
]

const read = (figure: string): number => Number(figure.replaceAll(',', ''))

const firstFigure = (
  message: string,
  patterns: readonly RegExp[],
  isValid: (figure: number) => boolean,
): number | undefined => {
  for (const pattern of patterns)
    for (const [, figure = ''] of message.matchAll(pattern)) {
      const value = read(figure)
      if (Number.isSafeInteger(value) && value >= 16 && isValid(value)) return value
    }
  return undefined
}
