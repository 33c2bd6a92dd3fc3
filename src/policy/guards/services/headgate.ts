/** The contract of this gateway for services. Webhook headers (Standard Webhooks) are added by the caller. */
import { isList, isObject, type JsonObject, text } from '../../../core/json.ts'
import {
  ALLOWED,
  type AskedTexts,
  type FoundPart,
  found,
  maskedParts,
  type ServiceCall,
  type ServiceReading,
} from './service-call.ts'

/** Characters of a message for the client. */
const MAX_MESSAGE = 300
const MAX_SPANS = 10_000

/**
 * Asks `{id, phase, final, team, key, model, style, texts: [{i, role, kind, text}]}`; the answer is `{action, message?,
 * labels?, spans?: [{i, start, end, label}]}`, with offsets in UTF-16 units.
 */
export const headgateCalls = (asked: AskedTexts): readonly ServiceCall[] => {
  const { id, phase, final, team, key, model, style, texts } = asked
  const body: JsonObject = {
    ...{ id, phase, final, team: team.name, key: key.name, model, style },
    texts: texts.map((one, i) => ({ i, role: one.role, kind: one.kind, text: one.text })),
  }
  return [{ path: '', body, read: (answer) => read(answer, asked) }]
}

const read = (answer: unknown, { texts }: AskedTexts): ServiceReading => {
  if (!isObject(answer)) return { wrong: 'the answer is not an object' }
  const { action, message = null, labels = [], spans = [] } = answer
  if (message !== null && typeof message !== 'string') return { wrong: 'message is not a string' }
  if (!isList(labels) || !labels.every((label) => typeof label === 'string'))
    return { wrong: 'labels is not a list of strings' }
  if (!isList(spans) || spans.length > MAX_SPANS) return { wrong: 'spans is not a list, or has more than 10,000 items' }
  const shown = message === null ? null : printable(message)
  switch (action) {
    case 'allow':
      return ALLOWED
    case 'flag':
    case 'block':
      return found(action, labels, shown)
    case 'mask': {
      const parts: FoundPart[] = []
      for (const span of spans) {
        const part = spanOf(span, texts)
        if (part === null) return { wrong: 'a span is not within its text' }
        parts.push(part)
      }
      if (parts.length === 0) return { wrong: 'mask without spans' }
      return maskedParts(parts)
    }
    default:
      return { wrong: 'action is none of allow, block, mask and flag' }
  }
}

const spanOf = (span: unknown, texts: AskedTexts['texts']): FoundPart | null => {
  if (!isObject(span)) return null
  const { i, start, end } = span
  const label = text(span.label)
  if (!isIndex(i) || !isIndex(start) || !isIndex(end) || label === undefined) return null
  const length = texts[i]?.text.length ?? -1
  return start < end && end <= length ? { i, start, end, label } : null
}

const isIndex = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

const printable = (message: string): string =>
  message
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, MAX_MESSAGE)
    .toWellFormed()
