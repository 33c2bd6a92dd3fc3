/** What the spans of a call state beside its row in the ledger. No text of a prompt or an answer. */
import type { GenerationSettings } from '../../core/chat.ts'
import type { SpanFacts, SpanNoted } from '../../core/journal.ts'
import type { Instance } from '../../core/provider.ts'
import type { AttemptSource, OpenAttempt, OpenCall } from './open-attempt.ts'

/** Characters of a text that a client or a provider has chosen. */
const MOST = 80

export const requestSpan = ({ id, method, span, asked, session }: OpenCall, at: number): SpanNoted => ({
  type: 'span',
  at,
  request: id,
  attempt: null,
  facts: { method, state: span?.state, session: session?.name ? session.id : null, ...asked },
})

/** The settings of a request that its spans state. Those that are no numbers are left out. */
export const askedFacts = (settings: GenerationSettings): SpanFacts => {
  const { maxOutputTokens, temperature, topP, topK, seed, choices, effort, format } = settings
  return {
    maxTokens: maxOutputTokens?.value,
    temperature: temperature?.value,
    topP: topP?.value,
    topK: topK?.value,
    seed: Number.isSafeInteger(seed?.value) ? Number(seed?.value) : undefined,
    choices: choices?.value,
    effort: effort?.value,
    format: format?.value.kind,
  }
}

export const attemptSpan = (
  { id }: Pick<OpenCall, 'id'>,
  { number, target, source }: Pick<OpenAttempt, 'number' | 'target' | 'source'>,
  at: number,
): SpanNoted => ({
  type: 'span',
  at,
  request: id,
  attempt: number,
  facts: { ...placeOf(target.candidate.instance), ...answerFacts(source) },
})

const answerFacts = (source: AttemptSource | null): SpanFacts =>
  source
    ? {
        protocol: source.facts.format,
        id: shortened(source.facts.id),
        model: shortened(source.facts.model),
        finish: shortened(source.facts.finishReason),
      }
    : NOTHING

const NOTHING: SpanFacts = {}

const shortened = (text: string | null): string | null => (text === null ? null : text.slice(0, MOST))

/** Without the credentials that an address may have. */
const ORIGIN = /^([a-z]+:\/\/)(?:[^/?#]*@)?([^/?#]*)/i

const places = new WeakMap<Instance, SpanFacts>()
const placeOf = (instance: Instance): SpanFacts => {
  const known = places.get(instance)
  if (known) return known
  const [, scheme = '', host = ''] = ORIGIN.exec(instance.baseUrl) ?? []
  const made = { origin: scheme + host, vendor: instance.provider.name }
  places.set(instance, made)
  return made
}
