/** The routes with their targets: how one is chosen, what requests of the last hour did, and what answers if providers are down. */
import { placePath, valuesOf } from '../../address.ts'
import { count, duration, percent } from '../../format.ts'
import { Empty, Unknown } from '../../parts/states.tsx'
import {
  answerShare,
  changesTarget,
  placeName,
  plannedAt,
  type RouteWithTraffic,
  type ShownRoute,
  type TargetOfRoute,
} from '../../plans.ts'
import { current, isTight, pageHref } from '../../store.ts'
import { routes as texts } from '../../words/routes.ts'
import { Canary, type CanaryLine } from './canary.tsx'
import { Can, Context, canWord, factsOf, type KnownFacts, Price, StateMark, stateText } from './facts.tsx'
import { DOWN } from './what-if.tsx'

const AUTO = 'auto'
/** Teams' own routes with requests that are shown here; all are listed below. */
const MOST_OWN = 50

/** A route, and its plan under the assumption of the address; absent: it has none, or none was read. */
type Entry = {
  readonly route: RouteWithTraffic
  readonly plan: ShownRoute | undefined
  /** Absent: it has none. */
  readonly canary: CanaryLine | undefined
}
type OfTarget = Omit<Entry, 'canary'> & { readonly target: TargetOfRoute; readonly at: number }

const Requests = ({ route }: Pick<Entry, 'route'>) => {
  const { requests, refused, failed, cached } = route
  const parts = [
    ...(failed > 0 ? [texts.list.failed(failed)] : []),
    ...(refused > 0 ? [texts.list.refused(refused)] : []),
    ...(cached > 0 ? [texts.list.cached(cached)] : []),
  ]
  const place = { page: 'requests', id: null, from: '-60m', to: null, params: { route: [route.name] } } as const
  return (
    <span class="small">
      {route.name === AUTO ? (
        texts.list.requests(requests)
      ) : (
        <a href={placePath(place)}>{texts.list.requests(requests)}</a>
      )}
      {parts.length > 0 && <span class={failed > 0 ? 'bad' : 'dim'}> · {parts.join(' · ')}</span>}
    </span>
  )
}

const Answers = ({ plan }: { readonly plan: ShownRoute }) => {
  const { answers, before, loses } = plan
  return (
    <>
      {answers === null ? (
        <strong class="bad">
          <span aria-hidden="true">✗</span> {texts.list.noTarget}
        </strong>
      ) : (
        changesTarget(plan) && <strong>{texts.list.now(placeName(answers))}</strong>
      )}
      {changesTarget(plan) && before !== null && <span class="small dim">{texts.list.instead(placeName(before))}</span>}
      {loses.length > 0 && <span class="small warn">{texts.list.loses(loses.map(canWord).join(', '))}</span>}
    </>
  )
}

/** What all routes have. `reload`: after a change. */
type Shared = { readonly facts: KnownFacts; readonly reload: () => void }

const About = ({ route, plan, canary, facts, reload }: Entry & Shared) => {
  const { name, team, strategy, targets, problem, drawn } = route
  const choices = targets.filter(({ role }) => role === 'target').length
  const model = factsOf(facts, plan?.answers ?? null)
  return (
    <div class="routes-about">
      <a class="routes-name" href={placePath({ ...current.value, id: name })} title={texts.list.explain(name)}>
        {name}
      </a>
      {team && <span class="small dim">{texts.list.team(team.name ?? team.id)}</span>}
      {name === AUTO && <span class="small dim">{texts.list.auto}</span>}
      {(choices > 1 || drawn) && (
        <span class="small dim">
          {texts.strategy(strategy)}
          {targets.some((one) => one.is_canary) && texts.list.besideCanary}
        </span>
      )}
      <Requests route={route} />
      {plan && <Answers plan={plan} />}
      {canary && <Canary canary={canary} reload={reload} />}
      {problem !== null && <span class="small bad">{problem}</span>}
      {model?.context_window !== undefined && (
        <span class="small dim">
          <Context model={model} /> · <Price model={model} /> · <Can model={model} />
        </span>
      )}
    </div>
  )
}

const isSoon = (time: string): boolean => Date.parse(time) - Date.now() < SOON

const TargetName = ({ target, plan }: OfTarget) => {
  const { role, when, override, is_canary: isCanary, retires } = target
  const planned = plannedAt(plan, target)
  const state = planned && stateText(planned)
  return (
    <div class="routes-target">
      <span>
        {planned ? <StateMark target={planned} /> : <span aria-hidden="true">·</span>}{' '}
        <span class={state === undefined ? '' : 'routes-out'}>{placeName(target)}</span>
        {role !== 'target' && <span class="badge">{texts.role[role]}</span>}
        {isCanary && <span class="badge probe">{texts.role.canary}</span>}
        {retires !== null && isSoon(retires) && (
          <span class="badge warn">{texts.list.retires(retires.slice(0, 10))}</span>
        )}
      </span>
      {state !== undefined && <span class="small bad">{state}</span>}
      {when !== null && <span class="small">{texts.when(when)}</span>}
      {override !== null && <span class="small dim">{override}</span>}
    </div>
  )
}

const First = ({ route, target, at }: OfTarget) => {
  if (target.role === 'former') return '–'
  if (!route.drawn) return count(at + 1)
  return target.share === null ? texts.list.later : texts.list.share(percent(target.share))
}

const Answered = ({ route, target }: OfTarget) => {
  const share = answerShare(route, target)
  if (share === null) return <Unknown why={texts.unknown.traffic} />
  return (
    <span class="routes-share">
      <strong>{percent(share)}</strong> <span class="small dim">{count(target.answered)}</span>
      <span aria-hidden="true" style={{ inlineSize: `${Math.round(100 * share)}%` }} />
    </span>
  )
}

const Failed = ({ target }: Pick<OfTarget, 'target'>) => {
  const { attempts, failed, limited } = target
  if (attempts === 0) return <Unknown why={texts.unknown.attempts} />
  return (
    <>
      <span class={failed > 0 ? 'bad' : ''}>{texts.list.ofAttempts(failed, attempts)}</span>
      {limited > 0 && <span class="small warn routes-limited"> {texts.list.limited(limited)}</span>}
    </>
  )
}

const FirstToken = ({ target: { first_content_p50_ms: ms } }: Pick<OfTarget, 'target'>) =>
  ms === null ? <Unknown why={texts.unknown.traffic} /> : duration(ms)

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

type ListProps = Shared & { readonly entries: readonly Entry[] }

const keyOf = ({ route: { name, id } }: Entry): string => id ?? name
/** ms before the end of a model: it is marked from then on. */
const SOON = 90 * 86_400_000
const NO_TARGET = { colSpan: 4 }

const RouteRows = ({ entry, ...shared }: Shared & { readonly entry: Entry }) => {
  const { route, plan } = entry
  const [first, ...others] = route.targets
  const rows = Math.max(1, route.targets.length)
  const cells = (target: TargetOfRoute, at: number) => (
    <>
      <td>
        <TargetName {...{ route, plan, target, at }} />
      </td>
      <td class="end">
        <First {...{ route, plan, target, at }} />
      </td>
      <td class="end">
        <Answered {...{ route, plan, target, at }} />
      </td>
      <td class="end">
        <Failed target={target} />
      </td>
      <td class="end">
        <FirstToken target={target} />
      </td>
    </>
  )
  return (
    <tbody class="routes-targets">
      <tr aria-selected={current.value.id === route.name}>
        <td rowSpan={rows}>
          <About {...entry} {...shared} />
        </td>
        {first ? cells(first, 0) : <td {...NO_TARGET}>{texts.list.noTarget}</td>}
        <td rowSpan={rows} class="end">
          <Use name={route.name} />
        </td>
      </tr>
      {others.map((target, at) => (
        <tr key={placeName(target)}>{cells(target, at + 1)}</tr>
      ))}
    </tbody>
  )
}

const Rows = ({ entries, ...shared }: ListProps) => (
  <table class="table routes-table" data-columns="tight" aria-label={texts.list.label}>
    <thead>
      <tr>
        <th scope="col">{texts.list.name}</th>
        <th scope="col">{texts.list.target}</th>
        {[texts.list.order, texts.list.answered, texts.list.failures, texts.list.first].map((text) => (
          <th key={text} scope="col" class="end">
            {text}
          </th>
        ))}
        <th scope="col">
          <span class="sr-only">{texts.list.use}</span>
        </th>
      </tr>
    </thead>
    {entries.map((entry) => (
      <RouteRows key={keyOf(entry)} entry={entry} {...shared} />
    ))}
  </table>
)

const Cards = ({ entries, ...shared }: ListProps) => (
  <ul class="routes-cards" aria-label={texts.list.label}>
    {entries.map((entry) => {
      const { route, plan } = entry
      return (
        <li key={keyOf(entry)} class="panel">
          <div class="routes-card-head">
            <About {...entry} {...shared} />
            <Use name={route.name} />
          </div>
          <ul class="routes-targets">
            {route.targets.map((target, at) => (
              <li key={placeName(target)}>
                <TargetName {...{ route, plan, target, at }} />
                <dl class="routes-figures">
                  <dt>{texts.list.order}</dt>
                  <dd>
                    <First {...{ route, plan, target, at }} />
                  </dd>
                  <dt>{texts.list.answered}</dt>
                  <dd>
                    <Answered {...{ route, plan, target, at }} />
                  </dd>
                  <dt>{texts.list.failures}</dt>
                  <dd>
                    <Failed target={target} />
                  </dd>
                  <dt>{texts.list.first}</dt>
                  <dd>
                    <FirstToken target={target} />
                  </dd>
                </dl>
              </li>
            ))}
          </ul>
        </li>
      )
    })}
  </ul>
)

export type RouteListProps = Shared & {
  readonly routes: readonly RouteWithTraffic[]
  /** Null: not read, or not under the assumption of the address. */
  readonly plans: readonly ShownRoute[] | null
  readonly canaries: readonly CanaryLine[]
}

export const RouteList = ({ routes, plans, canaries, ...shared }: RouteListProps) => {
  const byName = new Map(plans?.map((plan) => [plan.model, plan]))
  const [ofFile, own] = [
    routes.filter(({ id }) => id === null),
    routes.filter(({ id, requests }) => id !== null && requests > 0),
  ]
  const entries = [...ofFile, ...own.slice(0, MOST_OWN)].map((route) => {
    const { id, name } = route
    if (id !== null) return { route, plan: undefined, canary: undefined }
    return { route, plan: byName.get(name), canary: canaries.find((one) => one.route === name) }
  })
  const isOnlyAuto = routes.every(({ name }) => name === AUTO)
  const hasDown = valuesOf(current.value, DOWN).length > 0
  return (
    <section class="stack">
      <h2>{texts.list.title}</h2>
      {isOnlyAuto && !hasDown && <Empty title={texts.list.none} />}
      {/* As the child of a grid a table with cells of several rows would be higher than its place. */}
      <div>{isTight.value ? <Cards {...shared} entries={entries} /> : <Rows {...shared} entries={entries} />}</div>
    </section>
  )
}
