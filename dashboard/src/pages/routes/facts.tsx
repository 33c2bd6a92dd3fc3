/** The facts of a model beside its routes: context, price, capabilities, own latency, and the state of a target. */
import { duration, minute } from '../../format.ts'
import { Unknown } from '../../parts/states.tsx'
import { type PlannedTarget, type PlanPlace, placeName, stateOf } from '../../plans.ts'
import { routes as texts } from '../../words/routes.ts'

/** A model of `GET /models`. */
export type ModelEntry = {
  readonly id: string
  readonly owned_by: string
  readonly context_window?: number
  readonly max_output_tokens?: number
  readonly capabilities?: readonly string[]
  readonly pricing?: { readonly input?: number; readonly output?: number }
}
/** A provider of `GET /providers`. */
export type ProviderFacts = {
  readonly id: string
  readonly status: string
  readonly models: readonly {
    readonly id: string
    readonly latency_ms: { readonly first_content_p50: number | null }
  }[]
}
/** What is known, by `provider/model` and by provider. */
export type KnownFacts = {
  readonly models: ReadonlyMap<string, ModelEntry>
  readonly providers: ReadonlyMap<string, ProviderFacts>
}

const wordIn = (words: object, name: string): string => {
  const word: unknown = Reflect.get(words, name)
  return typeof word === 'string' ? word : name.replaceAll('_', ' ')
}
export const canWord = (name: string): string => wordIn(texts.can, name)
const stateWord = (name: string): string => wordIn(texts.state, name)

/** `200k`, `1M`: sizes of models are round numbers. */
const size = (tokens: number): string =>
  tokens >= 1e6 ? `${Math.round(tokens / 1e5) / 10}M` : tokens >= 1e3 ? `${Math.round(tokens / 1e3)}k` : String(tokens)
const dollars = (amount: number): string => {
  const least = Number.isInteger(amount) ? 0 : 2
  return `$${amount.toLocaleString(undefined, { minimumFractionDigits: least, maximumFractionDigits: 3 })}`
}

type OfModel = { readonly model: ModelEntry | undefined; readonly why?: string }

export const Context = ({ model, why = texts.unknown.facts }: OfModel) =>
  model?.context_window === undefined ? <Unknown why={why} /> : size(model.context_window)

export const Output = ({ model, why = texts.unknown.facts }: OfModel) =>
  model?.max_output_tokens === undefined ? <Unknown why={why} /> : size(model.max_output_tokens)

export const Price = ({ model, why = texts.unknown.facts }: OfModel) => {
  const { input, output } = model?.pricing ?? {}
  if (input === undefined) return <Unknown why={why} />
  return texts.price(dollars(input), output === undefined ? '–' : dollars(output))
}

export const Can = ({ model, why = texts.unknown.facts }: OfModel) =>
  model?.capabilities === undefined ? <Unknown why={why} /> : model.capabilities.map(canWord).join(' · ')

/** Of a model at its provider: models of one provider differ. */
export const FirstContent = ({
  provider,
  model,
}: {
  readonly provider: ProviderFacts | undefined
  readonly model: string
}) => {
  const ms = provider?.models.find(({ id }) => id === model)?.latency_ms.first_content_p50 ?? null
  if (ms === null) return <Unknown why={texts.unknown.latency} />
  return <span title={texts.latency(duration(ms))}>{duration(ms)}</span>
}

export const factsOf = ({ models }: KnownFacts, place: PlanPlace | null): ModelEntry | undefined =>
  place === null ? undefined : models.get(placeName(place))

const MARKS = { ready: '●', unfit: '–', resting: '◆' } as const
const TONES = { ready: 'ok', unfit: 'dim', resting: 'bad' } as const

/** The word of a target's state; undefined: it is ready. */
export const stateText = (target: PlannedTarget): string | undefined => {
  const state = stateOf(target)
  if (state.is === 'ready') return undefined
  if (state.is === 'unfit') return texts.state.unfit
  const until = state.until === null ? '' : ` ${texts.state.until(minute(Date.parse(state.until)))}`
  return `${stateWord(state.because)}${until}`
}

/** The shape of a target's state, with its word for screen readers. */
export const StateMark = ({ target }: { readonly target: PlannedTarget }) => {
  const { is } = stateOf(target)
  return (
    <span class={TONES[is]}>
      <span aria-hidden="true">{MARKS[is]}</span>
      <span class="sr-only">{stateText(target) ?? texts.state.ready}</span>
    </span>
  )
}
