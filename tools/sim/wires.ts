/**
 * Upstream responses and client-side parsing in three API styles. Each word of a text encodes its attempt and its position,
 * so that the client's text shows which attempt it came from and whether anything is missing.
 */
import { answerBody, errorBody, piecesOf } from '../../test/support/answers.ts'
import type { UpstreamRequest } from '../../test/support/upstream.ts'

export type Style = 'chat' | 'responses' | 'messages'

/** Three characters for the attempt, one for the position, and one of two bytes, so that cuts fall inside characters. */
const PLACEHOLDER = '~~~'
const MARK = 'ü'
export const tagOf = (attempt: number): string => attempt.toString(36).padStart(3, '0')
/** Maximum words of a response: positions are one character. */
const MAX_WORDS = 30

const requestOf = (style: Style, stream: boolean, usage: boolean): UpstreamRequest => {
  const path = style === 'chat' ? '/v1/chat/completions' : `/v1/${style}`
  const json = { ...(stream && { stream }), ...(usage && { stream_options: { include_usage: true } }) }
  return {
    number: 0,
    method: 'POST',
    path,
    headers: {},
    body: '',
    json,
    model: 'm',
    stream,
    key: undefined,
    connection: 0,
  }
}

export type Answer = {
  readonly text: string
  /** Offset of the finish reason. A response cut before it is incomplete. */
  readonly finish: number
  /** Offset up to which it must be read to be recognised as complete. */
  readonly finished: number
  /** Offset of the first word, or where it would be. */
  readonly content: number
  /** Offset of the terminator after the finish reason (`[DONE]`); the length if there is none. */
  readonly terminator: number
}

const templates = new Map<string, Answer>()

type AnswerFormat = { readonly style: Style; readonly stream: boolean; readonly usage: boolean }

const template = ({ style, stream, usage }: AnswerFormat, words: number): Answer => {
  const name = `${style} ${stream} ${usage} ${words}`
  const known = templates.get(name)
  if (known) return known
  if (words > MAX_WORDS) throw new Error(`${words} words exceed the limit of ${MAX_WORDS}`)
  const content = Array.from({ length: words }, (_, at) => `${PLACEHOLDER}${at.toString(36)}${MARK}`).join('')
  const request = requestOf(style, stream, usage)
  const reply = { text: content, output: words }
  const pieces = stream ? piecesOf(request, reply) : [JSON.stringify(answerBody(request, reply))]
  const starts: number[] = []
  let at = 0
  for (const piece of pieces) {
    starts.push(at)
    at += piece.length
  }
  const isFinish = (piece: string) =>
    /"finish_reason":"|"type":"message_delta"|"type":"response\.(?:completed|incomplete)"/.test(piece)
  const finish = stream ? (starts[pieces.findIndex(isFinish)] ?? at) : at
  const terminator =
    stream && style === 'chat' ? (starts[pieces.findIndex((piece) => piece.includes('[DONE]'))] ?? at) : at
  const first = pieces.findIndex((piece) => piece.includes(PLACEHOLDER))
  const text = pieces.join('')
  const finished = stream ? text.indexOf('\n\n', finish) + 2 : at
  const made = { text, finish, finished, terminator, content: first === -1 ? finish : (starts[first] ?? 0) }
  templates.set(name, made)
  return made
}

/** A complete response with this number of words. */
export const answer = ({ style, stream, usage }: AnswerFormat, words: number, tag: string): Answer => {
  const made = template({ style, stream, usage }, words)
  return { ...made, text: made.text.replaceAll(PLACEHOLDER, tag) }
}

export const errorText = (style: Style, type: string, message: string, code?: string): string =>
  JSON.stringify(errorBody(requestOf(style, false, false), { type, message, ...(code !== undefined && { code }) }))

/** An error event of a stream that began with status 200. */
export const errorEvent = (style: Style, type: string, message: string, code?: string): string => {
  if (style === 'chat') return `data: ${errorText(style, type, message, code)}\n\n`
  if (style === 'messages') return `event: error\ndata: ${errorText(style, type, message)}\n\n`
  const error = { type: 'error', code: code ?? type, message, param: null, sequence_number: 0 }
  return `event: error\ndata: ${JSON.stringify(error)}\n\n`
}

const WORD = /([0-9a-z]{3})([0-9a-z])ü/g

/** The attempt that a text comes from, its number of words, and what is wrong with it. */
export type Words = { readonly tag: string | null; readonly count: number; readonly problem: string | null }

/** `gaps`: words may be missing in between. */
export const wordsIn = (text: string, gaps: boolean): Words => {
  let tag: string | null = null
  let next = 0
  let count = 0
  let length = 0
  for (const [match, of = '', place = ''] of text.matchAll(WORD)) {
    const at = Number.parseInt(place, 36)
    tag ??= of
    if (of !== tag) return { tag, count, problem: `words of ${tag} and of ${of}` }
    if (gaps ? at < next : at !== next) return { tag, count, problem: `word ${at} of ${tag} instead of ${next}` }
    next = at + 1
    count++
    length += match.length
  }
  return { tag, count, problem: length === text.length ? null : `unexpected text: ${text.slice(0, 80)}` }
}

/** A response as its client reads it. */
export type Reading = {
  readonly text: string
  /** Number of terminators. */
  readonly terminators: number
  /** Codes of the errors in it. */
  readonly errors: readonly string[]
  readonly problem: string | null
}

type Fields = { readonly [name: string]: unknown }
// JSON.parse is untyped; every member is checked before use.
const asObject = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const text = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Reads a stream like a client: each `data:` must be JSON or `[DONE]`. */
export const readStream = (style: Style, source: string): Reading => {
  let words = ''
  let terminators = 0
  let sequence = -1
  let done = false
  let problem: string | null = null
  const errors: string[] = []
  const wrong = (what: string) => {
    problem ??= what
  }
  const event = (data: string) => {
    if (done || (terminators > 0 && data !== '[DONE]')) wrong(`data after the end: ${data.slice(0, 80)}`)
    if (data === '[DONE]') {
      done = true
      if (style === 'chat') terminators++
      // In the responses style it follows every end.
      else if (style !== 'responses' || terminators + errors.length === 0) wrong('an unexpected [DONE]')
      return
    }
    let body: Fields
    try {
      body = asObject(JSON.parse(data))
    } catch {
      return wrong(`data that is not JSON: ${data.slice(0, 80)}`)
    }
    switch (style) {
      case 'chat': {
        if (body.error !== undefined) return void errors.push(text(asObject(body.error).code))
        const choice = asObject(Array.isArray(body.choices) ? body.choices[0] : undefined)
        words += text(asObject(choice.delta).content)
        return
      }
      case 'responses': {
        const number = body.sequence_number
        if (typeof number !== 'number' || number <= sequence) wrong(`sequence number ${number} after ${sequence}`)
        else sequence = number
        const type = text(body.type)
        if (type === 'response.output_text.delta') words += text(body.delta)
        else if (type === 'response.completed' || type === 'response.incomplete') terminators++
        else if (type === 'error') errors.push(text(body.code) || text(asObject(body.error).code))
        else if (type === 'response.failed' && errors.length === 0)
          errors.push(text(asObject(asObject(body.response).error).code))
        return
      }
      case 'messages': {
        const type = text(body.type)
        if (type === 'content_block_delta') words += text(asObject(body.delta).text)
        else if (type === 'message_stop') terminators++
        else if (type === 'error') errors.push(text(asObject(body.error).type))
        return
      }
      default:
        throw new Error(`unknown style ${style satisfies never}`)
    }
  }
  // Fields with other names are ignored (interrupted upstreams leave some), but a line must be complete.
  let data: string | null = null
  let from = 0
  while (from < source.length) {
    const until = source.indexOf('\n', from)
    if (until === -1) {
      wrong(`it ends inside a line: ${source.slice(from, from + 80)}`)
      break
    }
    const line = source.slice(from, until)
    from = until + 1
    if (line === '') {
      if (data !== null) event(data)
      data = null
    } else if (line.startsWith('data:')) data = (data === null ? '' : `${data}\n`) + line.slice(line[5] === ' ' ? 6 : 5)
    else if (!line.includes(':')) wrong(`a line without a field: ${line.slice(0, 80)}`)
  }
  if (data !== null) wrong('it ends inside an event')
  return { text: words, terminators, errors, problem }
}

/** Reads a body that is not a stream: a response or an error. */
export const readWhole = (style: Style, source: string): Reading => {
  let body: Fields
  try {
    body = asObject(JSON.parse(source))
  } catch {
    return { text: '', terminators: 0, errors: [], problem: `a body that is not JSON: ${source.slice(0, 80)}` }
  }
  if (body.error !== undefined && body.error !== null) {
    const error = asObject(body.error)
    return { text: '', terminators: 0, errors: [text(error.code) || text(error.type)], problem: null }
  }
  return { text: textOf(style, body), terminators: 1, errors: [], problem: null }
}

const textOf = (style: Style, body: Fields): string => {
  const list = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.map(asObject) : [])
  switch (style) {
    case 'chat':
      return list(body.choices)
        .map((choice) => text(asObject(choice.message).content))
        .join('')
    case 'responses':
      return list(body.output)
        .flatMap((item) => list(item.content).map((part) => text(part.text)))
        .join('')
    case 'messages':
      return list(body.content)
        .map((block) => text(block.text))
        .join('')
    default:
      throw new Error(`unknown style ${style satisfies never}`)
  }
}
