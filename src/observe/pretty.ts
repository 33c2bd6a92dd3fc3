/** Formats log lines for a terminal. */
import type { Paint } from './colour.ts'
import { type Field, type Fields, type Line, plain } from './line.ts'

const clock = (at: number): string => {
  const date = new Date(at)
  const two = (number: number) => String(number).padStart(2, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

const text = (field: Field): string => plain(Array.isArray(field) ? field.join(', ') : String(field))

const MAX_MODEL = 48
const short = (name: string): string => (name.length > MAX_MODEL ? `${name.slice(0, MAX_MODEL)}…` : name)

/** `openai#a1f3:timeout, groq#09be:200` as `openai#a1f3 timeout → groq#09be 200`. */
const formatTrail = (trail: string): string =>
  trail
    .split(', ')
    .map((step) => step.replace(/:([^:]*)$/, ' $1'))
    .join(' → ')

const requestText = (fields: Fields, paint: Paint): string => {
  const status = Number(fields.status)
  const gone = fields.outcome === 'client_gone'
  const broken = fields.outcome === 'interrupted'
  const shade = gone ? paint.dim : broken || status >= 500 ? paint.bad : status >= 400 ? paint.warn : paint.good
  const target =
    fields.provider === undefined ? text(fields.model) : `${text(fields.provider)}/${text(fields.upstream_model)}`
  const first =
    typeof fields.first_content_ms === 'number' && fields.stream === true ? ` (first ${fields.first_content_ms})` : ''
  const tokens = fields.input_tokens === undefined ? '' : ` ${fields.input_tokens}→${fields.output_tokens} tok`
  const cost = typeof fields.cost === 'number' ? ` $${fields.cost}` : ''
  const requested =
    fields.provider === undefined ||
    fields.model === fields.upstream_model ||
    fields.model === `${fields.provider}/${fields.upstream_model}`
      ? ''
      : paint.dim(` for ${short(text(fields.model))}`)
  const ending = broken
    ? paint.bad(` interrupted: ${text(fields.error)}`)
    : gone
      ? paint.dim(' client disconnected')
      : ''
  const trail =
    typeof fields.trail === 'string' && fields.trail.includes(', ')
      ? `  ${paint.dim(formatTrail(text(fields.trail)))}`
      : ''
  const why =
    !broken && !gone && status >= 400 && fields.error !== undefined
      ? `  ${text(fields.error)}: ${text(fields.detail)}`
      : ''
  const times = `${fields.total_ms} ms${first}`
  return `${shade(String(fields.status))} ${short(target)}${requested} ${times}${tokens}${cost}${ending}${why}${trail}  ${paint.dim(text(fields.id))}`
}

const pairs = (fields: Fields): string =>
  Object.entries(fields)
    .filter(([name, field]) => field !== undefined && field !== null && name !== 'stack')
    .map(([name, field]) => `${name}=${text(field)}`)
    .join(' ')

const bodyOf = ({ event, fields }: Line, paint: Paint): string => {
  switch (event) {
    case 'request':
      return requestText(fields, paint)
    case 'fallback':
      return `fallback ${text(fields.from)} → ${text(fields.to)} after ${text(fields.kind)}: ${text(fields.detail)}  ${paint.dim(text(fields.id))}`
    case 'circuit':
      return `circuit of ${text(fields.what)} ${text(fields.name)}: ${text(fields.from)} → ${text(fields.to)} (${text(fields.why)})`
    case 'key': {
      const until = typeof fields.until === 'string' ? ` until ${text(fields.until)}` : ''
      return `key ${text(fields.provider)}#${text(fields.key)}: ${text(fields.from)} → ${text(fields.to)}${until}`
    }
    default: {
      const { message, ...others } = fields
      const rest = pairs(others)
      return `${text(event)}${message === undefined ? '' : `: ${text(message)}`}${rest === '' ? '' : `  ${paint.dim(rest)}`}`
    }
  }
}

/** One line for a terminal, followed by the stack of an error. */
export const prettyLine = (line: Line, paint: Paint): string => {
  const mark =
    line.level === 'error'
      ? paint.bad('error ')
      : line.level === 'warn' && line.event !== 'request'
        ? paint.warn('warn ')
        : ''
  const stack = line.level === 'error' && typeof line.fields.stack === 'string' ? line.fields.stack : ''
  const frames = stack
    .split('\n')
    .slice(1)
    .map((frame) => `\n  ${paint.dim(plain(frame.trim()))}`)
    .join('')
  const worker = line.worker === undefined ? '' : paint.dim(`${line.worker} `)
  return `${paint.dim(clock(line.at))} ${worker}${mark}${bodyOf(line, paint)}${frames}`
}
