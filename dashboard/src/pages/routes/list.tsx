/** The routes, with their targets in order, and what answers if providers are down. */
import { placePath, valuesOf } from '../../address.ts'
import { Empty } from '../../parts/states.tsx'
import { changesTarget, conditionalIn, placeName, type ShownRoute } from '../../plans.ts'
import { current, isTight, pageHref } from '../../store.ts'
import { routes as texts } from '../../words/routes.ts'
import { Can, Context, canWord, FirstContent, factsOf, type KnownFacts, Price, TargetLine } from './facts.tsx'
import { DOWN } from './what-if.tsx'

/** Targets of a route that are shown; the explanation has all. */
const MOST_TARGETS = 4
const AUTO = 'auto'

const Name = ({ plan }: { readonly plan: ShownRoute }) => (
  <>
    <a
      class="routes-name"
      href={placePath({ ...current.value, id: plan.model })}
      title={texts.list.explain(plan.model)}
    >
      {plan.model}
    </a>
    {plan.model === AUTO && <span class="small dim">{texts.list.auto}</span>}
    {plan.strategy !== undefined && plan.targets.length > 1 && (
      <span class="small dim">{texts.strategy(plan.strategy)}</span>
    )}
  </>
)

const Targets = ({ plan }: { readonly plan: ShownRoute }) => (
  <ol class="routes-targets">
    {plan.targets.slice(0, MOST_TARGETS).map((target) => (
      <li key={placeName(target)}>
        <TargetLine target={target} />
      </li>
    ))}
    {conditionalIn(plan).map(({ why, ...place }) => (
      <li key={`${placeName(place)} ${why}`} class="routes-more dim">
        {texts.list.conditional(placeName(place), why)}
      </li>
    ))}
    {plan.targets.length > MOST_TARGETS && (
      <li class="routes-more dim">{texts.list.more(plan.targets.length - MOST_TARGETS)}</li>
    )}
    {plan.targets.length === 0 && <li class="routes-more bad">{plan.error?.message ?? texts.list.noTarget}</li>}
  </ol>
)

const Answers = ({ plan }: { readonly plan: ShownRoute }) => {
  const { answers, before, loses } = plan
  return (
    <>
      {answers === null ? (
        <strong class="bad">
          <span aria-hidden="true">✗</span> {texts.list.noTarget}
        </strong>
      ) : (
        <strong>{placeName(answers)}</strong>
      )}
      {changesTarget(plan) && before !== null && <span class="small dim">{texts.list.instead(placeName(before))}</span>}
      {loses.length > 0 && <span class="small warn">{texts.list.loses(loses.map(canWord).join(', '))}</span>}
    </>
  )
}

const Use = ({ name }: { readonly name: string }) => {
  const [path, query = ''] = pageHref('connect').split('?')
  return (
    <a
      class="button quiet small"
      href={`${path}?${query === '' ? '' : `${query}&`}use=${encodeURIComponent(name)}`}
      aria-label={texts.list.useName(name)}
    >
      {texts.list.use}
    </a>
  )
}

type ListProps = { readonly plans: readonly ShownRoute[]; readonly facts: KnownFacts }

const Rows = ({ plans, facts }: ListProps) => {
  const opened = current.value.id
  return (
    <table class="table routes-table" data-columns="tight" aria-label={texts.list.label}>
      <thead>
        <tr>
          <th scope="col">{texts.list.name}</th>
          <th scope="col">{texts.list.targets}</th>
          <th scope="col">{texts.list.answers}</th>
          <th scope="col" class="end">
            {texts.list.context}
          </th>
          <th scope="col" class="end">
            {texts.list.price}
          </th>
          <th scope="col">{texts.list.can}</th>
          <th scope="col" class="end">
            {texts.list.first}
          </th>
          <th scope="col">
            <span class="sr-only">{texts.list.use}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {plans.map((plan) => {
          const model = factsOf(facts, plan.answers)
          const why = plan.answers === null ? texts.unknown.target : undefined
          return (
            <tr key={plan.model} aria-selected={opened === plan.model}>
              <td>
                <Name plan={plan} />
              </td>
              <td>
                <Targets plan={plan} />
              </td>
              <td>
                <Answers plan={plan} />
              </td>
              <td class="end">
                <Context model={model} {...(why !== undefined && { why })} />
              </td>
              <td class="end">
                <Price model={model} {...(why !== undefined && { why })} />
              </td>
              <td>
                <Can model={model} {...(why !== undefined && { why })} />
              </td>
              <td class="end">
                <FirstContent
                  provider={facts.providers.get(plan.answers?.provider ?? '')}
                  model={plan.answers?.model ?? ''}
                />
              </td>
              <td class="end">
                <Use name={plan.model} />
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

const Cards = ({ plans, facts }: ListProps) => (
  <ul class="routes-cards" aria-label={texts.list.label}>
    {plans.map((plan) => {
      const model = factsOf(facts, plan.answers)
      return (
        <li key={plan.model} class="panel">
          <div class="routes-card-head">
            <div>
              <Name plan={plan} />
            </div>
            <Use name={plan.model} />
          </div>
          <div class="routes-answer">
            <Answers plan={plan} />
          </div>
          <Targets plan={plan} />
          <p class="small dim">
            <Context model={model} /> · <Price model={model} /> · <Can model={model} />
          </p>
        </li>
      )
    })}
  </ul>
)

export const RouteList = (props: ListProps) => {
  const isOnlyAuto = props.plans.every(({ model }) => model === AUTO)
  const hasDown = valuesOf(current.value, DOWN).length > 0
  return (
    <section class="stack">
      <h2>{texts.list.title}</h2>
      {isOnlyAuto && !hasDown && <Empty title={texts.list.none} />}
      {props.plans.length > 0 && (isTight.value ? <Cards {...props} /> : <Rows {...props} />)}
    </section>
  )
}
