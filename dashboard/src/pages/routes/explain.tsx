/** Explains where a request would be routed: the plan for a model and what the request has, or for a pasted body. */

import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { REQUEST_STYLES, type RequestStyle } from '../../../../src/core/request-styles.ts'
import { valuesOf } from '../../address.ts'
import { useResource, write } from '../../api.ts'
import { type ExampleNeed, NEEDS } from '../../example-body.ts'
import { percent } from '../../format.ts'
import { Combobox } from '../../parts/combobox.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { useId } from '../../parts/use-id.ts'
import { type PlannedTarget, placeName, type ShownPlan, stateOf } from '../../plans.ts'
import { current, go } from '../../store.ts'
import { routes as texts } from '../../words/routes.ts'
import { bodyOf, MOST_TOKENS, pastedBody } from './ask.ts'
import { canWord, StateMark, stateText } from './facts.tsx'
import { DOWN } from './what-if.tsx'

type Question = { readonly request: { readonly [member: string]: unknown }; readonly style?: RequestStyle }

/** The share of requests for which a target is first, or its place in their order. */
const Rank = ({ share, isFirst }: { readonly share: number | undefined; readonly isFirst: boolean }) => {
  if (share !== undefined && share > 0) return <strong>{texts.explain.share(percent(share))}</strong>
  return isFirst ? <strong>{texts.explain.first}</strong> : texts.explain.next
}

type WhyProps = { readonly target: PlannedTarget; readonly isFirst: boolean; readonly drawn: boolean }

const Why = ({ target, isFirst, drawn }: WhyProps) => {
  const { doubts = [], unfit_for: unfit = [], only_without: without = [] } = target
  const state = stateOf(target)
  const reasons = [
    ...doubts.map(({ lacks }) => texts.explain.lacks(canWord(lacks))),
    ...(unfit.length > 0 ? [texts.explain.cannotSend(unfit.join(', '))] : []),
    ...(without.length > 0 ? [texts.explain.drops(without.join(', '))] : []),
  ]
  if (state.is === 'unfit')
    return <span>{texts.explain.leftOut(reasons.length > 0 ? reasons.join('; ') : texts.state.unfit)}</span>
  if (state.is === 'resting') return <span>{texts.explain.notNow(stateText(target) ?? '')}</span>
  return (
    <span>
      <Rank share={drawn ? target.share : undefined} isFirst={isFirst} /> {isFirst && texts.explain.withKey(state.key)}
    </span>
  )
}

export const Plan = ({ plan }: { readonly plan: ShownPlan }) => {
  const { by, model, targets, skipped = [], drawn = false } = plan
  const words = texts.explain.by
  const first = targets.find((target) => stateOf(target).is === 'ready')
  return (
    <div class="stack" role="status">
      {by !== undefined && (
        <p>
          {by === 'route' || by === 'provider' || by === 'listed' || by === 'default'
            ? words[by](model)
            : texts.explain.byOther(model, by)}
        </p>
      )}
      {!first && <p class="bad">{texts.explain.nothing}</p>}
      <ol class="routes-plan">
        {targets.map((target) => (
          <li key={placeName(target)}>
            <StateMark target={target} /> <span class="routes-place">{placeName(target)}</span>
            <span class="routes-why">
              <Why target={target} isFirst={target === first} drawn={drawn} />
              <span class="small dim">{target.because}</span>
              {target.override !== undefined && <span class="small dim">{target.override}</span>}
              {target.when !== undefined && <span class="small dim">{texts.when(target.when)}</span>}
            </span>
          </li>
        ))}
        {skipped.map(({ provider, model: name, why }) => (
          <li key={`${provider}/${name} ${why}`} class="routes-skipped">
            <span aria-hidden="true">–</span> <span class="routes-place">{`${provider}/${name}`}</span>
            <span class="routes-why">{texts.explain.leftOut(why)}</span>
          </li>
        ))}
      </ol>
    </div>
  )
}

const Explanation = ({ question, down }: { readonly question: Question; readonly down: readonly string[] }) => {
  const body = { ...question, ...(down.length > 0 && { assume: { down } }) }
  const { value, problem, isLoading, reload } = useResource(
    JSON.stringify(body),
    () => write<ShownPlan>('POST', '/explain', body),
    { isolated: true },
  )
  if (problem) return <Failed problem={problem} retry={reload} />
  if (!value) return isLoading ? <Loading rows={2} /> : null
  return <Plan plan={value} />
}

/** What the form has, and the question that was asked with it. */
const useForm = () => {
  const { id } = current.value
  const style = useSignal<RequestStyle>('chat')
  const needs = useSignal<readonly ExampleNeed[]>([])
  const tokens = useSignal(100)
  const model = useSignal(id ?? '')
  const pasted = useSignal('')
  const problem = useSignal('')
  const question = useSignal<Question | null>(null)
  const ask = () => {
    problem.value = ''
    const name = model.value.trim()
    if (pasted.value.trim() === '') {
      const request = bodyOf({ model: name, style: style.value, needs: needs.value, tokens: tokens.value })
      question.value = name === '' ? null : { request, style: style.value }
      return
    }
    const body = pastedBody(pasted.value)
    question.value = body && { request: name === '' ? body : { ...body, model: name } }
    if (!body) problem.value = texts.explain.noJson
  }
  // A route of the list was opened, or the history was used.
  useEffect(() => {
    model.value = id ?? ''
    if (id !== null) ask()
    else question.value = null
    if (id !== null) document.getElementById('explain')?.scrollIntoView({ block: 'nearest' })
  }, [id])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const name = model.value.trim()
    if (name !== '' && name !== id) go({ ...current.value, id: name })
    else ask()
  }
  return { style, needs, tokens, model, pasted, problem, question, submit }
}

type Form = ReturnType<typeof useForm>

const StyleField = ({ style }: Pick<Form, 'style'>) => (
  <label class="field">
    {texts.explain.style}
    <select
      value={style.value}
      onChange={({ currentTarget }) => {
        style.value = REQUEST_STYLES.find((one) => one === currentTarget.value) ?? 'chat'
      }}
    >
      {REQUEST_STYLES.map((one) => (
        <option key={one} value={one}>
          {texts.explain.styles[one]}
        </option>
      ))}
    </select>
  </label>
)

const NeedFields = ({ needs }: Pick<Form, 'needs'>) => (
  <fieldset class="routes-needs">
    <legend>{texts.explain.needs}</legend>
    {NEEDS.map((need) => (
      <label key={need} class="check">
        <input
          type="checkbox"
          checked={needs.value.includes(need)}
          onChange={({ currentTarget }) => {
            const others = needs.value.filter((one) => one !== need)
            needs.value = currentTarget.checked ? [...others, need] : others
          }}
        />
        {texts.explain.need[need]}
      </label>
    ))}
  </fieldset>
)

const TokensField = ({ tokens }: Pick<Form, 'tokens'>) => (
  <label class="field routes-tokens">
    {texts.explain.tokens}
    <input
      type="number"
      min={1}
      max={MOST_TOKENS}
      value={tokens.value}
      onInput={({ currentTarget }) => {
        tokens.value = Number(currentTarget.value) || 1
      }}
    />
  </label>
)

/** A body of one's own instead of the fields. */
const PastedField = ({ pasted }: Pick<Form, 'pasted'>) => (
  <details>
    <summary>{texts.explain.paste}</summary>
    <label class="field">
      {texts.explain.body}
      <textarea
        class="mono"
        rows={6}
        value={pasted.value}
        spellcheck={false}
        aria-describedby="routes-paste-about"
        onInput={({ currentTarget }) => {
          pasted.value = currentTarget.value
        }}
      />
    </label>
    <p id="routes-paste-about" class="dim small">
      {texts.explain.pasteAbout}
    </p>
  </details>
)

/** The form; its model is in the address, so that a link explains the same. */
export const Explain = ({ names }: { readonly names: readonly string[] }) => {
  const fieldId = useId()
  const { style, needs, tokens, model, pasted, problem, question, submit } = useForm()
  const down = valuesOf(current.value, DOWN)
  return (
    <section class="panel" id="explain" aria-labelledby="explain-title">
      <h2 id="explain-title">{texts.explain.title}</h2>
      <p class="dim">{down.length === 0 ? texts.explain.about : texts.explain.aboutDown(down.join(', '))}</p>
      <form class="stack" onSubmit={submit}>
        <div class="routes-form">
          <div class="field">
            <label for={fieldId}>{texts.explain.model}</label>
            <Combobox
              id={fieldId}
              value={model.value}
              suggestions={names.map((value) => ({ value }))}
              label={texts.explain.models}
              onInput={(value) => {
                model.value = value
              }}
            />
          </div>
          <StyleField style={style} />
          <NeedFields needs={needs} />
          <TokensField tokens={tokens} />
          <button type="submit" class="button primary">
            {texts.explain.submit}
          </button>
        </div>
        <PastedField pasted={pasted} />
        <p class="bad" role="alert">
          {problem.value}
        </p>
      </form>
      {question.value ? (
        <Explanation question={question.value} down={down} />
      ) : (
        <p class="dim">{texts.explain.empty}</p>
      )}
    </section>
  )
}
