/** Assumes that providers are off, and states in one sentence what the routes would do. */
import { valuesOf, withParam } from '../../address.ts'
import { effectOf, type ShownRoute } from '../../plans.ts'
import { current, go } from '../../store.ts'
import { routes as texts } from '../../words/routes.ts'
import { Effects } from './effects.tsx'
import { canWord, type ProviderFacts } from './facts.tsx'

/** The parameter of the address that names the providers. */
export const DOWN = 'down'

const MARKS: { readonly [status: string]: readonly [mark: string, tone: string] } = {
  available: ['●', 'ok'],
  degraded: ['◐', 'warn'],
}

const Answer = ({ plans }: { readonly plans: readonly ShownRoute[] }) => {
  const { all, left, changed, loses, noTarget } = effectOf(plans)
  return (
    <p class="routes-effect" role="status">
      <strong class={left === all ? 'ok' : 'bad'}>
        <span aria-hidden="true">{left === all ? '✓' : '✗'}</span> {texts.whatIf.answer(left, all)}
      </strong>
      {changed > 0 && <span>{texts.whatIf.change(changed)}</span>}
      {noTarget.length > 0 && <span class="bad">{texts.whatIf.noTarget(noTarget.length, noTarget.join(', '))}</span>}
      {loses.map(([names, what]) => (
        <span key={names.join(' ')} class="warn">
          {texts.whatIf.lose(names.length, what.map(canWord).join(', '), names.join(', '))}
        </span>
      ))}
    </p>
  )
}

export const WhatIf = ({
  providers,
  plans,
}: {
  readonly providers: readonly ProviderFacts[]
  /** Null: not read yet. */
  readonly plans: readonly ShownRoute[] | null
}) => {
  const down = valuesOf(current.value, DOWN)
  const toggle = (id: string) =>
    go(withParam(current.value, DOWN, down.includes(id) ? down.filter((one) => one !== id) : [...down, id]))
  // A provider of an old link may be gone: it can be unticked.
  const gone = down.filter((id) => !providers.some((one) => one.id === id))
  return (
    <section class="panel" aria-labelledby="what-if">
      <h2 id="what-if">{texts.whatIf.title}</h2>
      <p class="dim">{texts.whatIf.about}</p>
      <fieldset class="routes-providers">
        <legend class="sr-only">{texts.whatIf.choose}</legend>
        {[...providers, ...gone.map((id) => ({ id, status: '' }))].map(({ id, status }) => {
          const [mark, tone] = MARKS[status] ?? ['◆', 'bad']
          return (
            <label key={id} class="check">
              <input type="checkbox" checked={down.includes(id)} onChange={() => toggle(id)} />
              <span>
                {id}{' '}
                <span class={tone} title={status} aria-hidden="true">
                  {mark}
                </span>
                <span class="sr-only">{status}</span>
              </span>
            </label>
          )
        })}
        {providers.length === 0 && <p>{texts.whatIf.noProviders}</p>}
        {down.length > 0 && (
          <button type="button" class="button quiet small" onClick={() => go(withParam(current.value, DOWN, []))}>
            {texts.whatIf.clear}
          </button>
        )}
      </fieldset>
      {down.length === 0 ? <p class="dim">{texts.whatIf.none}</p> : plans && <Answer plans={plans} />}
      {down.length > 0 && <Effects down={down} />}
    </section>
  )
}
