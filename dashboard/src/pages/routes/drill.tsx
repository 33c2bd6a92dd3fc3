/** The fallback drill: what routes would lose if a provider failed, by what their requests have had. */
import { hasRole, read, useResource } from '../../api.ts'
import { percent } from '../../format.ts'
import { Failed, Unknown } from '../../parts/states.tsx'
import { routes as texts } from '../../words/routes.ts'

type Cause = {
  readonly share: number
  readonly text: string
  readonly targets: readonly { readonly source: 'dry' | 'live' | 'real'; readonly at: string | null }[]
}
type Unit = {
  readonly unit: string
  readonly name: string
  readonly lost: number | null
  readonly unknown: number | null
  readonly causes: readonly Cause[]
  readonly sentence: string
}
type Losses = {
  readonly enabled: boolean
  readonly to: string | null
  readonly data: readonly { readonly route: string; readonly requests: number; readonly units: readonly Unit[] }[]
}

const { drill } = texts
/** ms between two readings: a drill runs each hour. */
const EVERY = 60_000
const MOST = 20

const Share = ({ of }: { readonly of: number | null }) => (of === null ? <Unknown why={drill.none} /> : percent(of))

const sourceText = ({ source, at }: Cause['targets'][number]): string =>
  source === 'dry' ? drill.source.dry : drill.source[source](at?.slice(0, 10) ?? '')

const Why = ({ causes }: Pick<Unit, 'causes'>) => (
  <ul class="plain">
    {causes.map(({ share, text, targets: [first] }) => (
      <li key={text}>
        {percent(share)} {text} {first && <span class="small dim">{sourceText(first)}</span>}
      </li>
    ))}
  </ul>
)

export const Drill = () => {
  const { value, problem, reload } = useResource(
    'drill',
    (): Promise<Losses> =>
      hasRole('viewer', 'all')
        ? read('/drill', { losses: true })
        : Promise.resolve({ enabled: false, to: null, data: [] }),
    { every: EVERY, isolated: true },
  )
  if (problem) return <Failed problem={problem} retry={reload} />
  if (!value?.enabled) return null
  const rows = value.data.flatMap(({ route, requests, units }) => units.map((unit) => ({ route, requests, unit })))
  const worst = rows.toSorted((one, other) => (other.unit.lost ?? 0) - (one.unit.lost ?? 0)).slice(0, MOST)
  return (
    <section class="panel" aria-labelledby="drill">
      <h2 id="drill">{drill.title}</h2>
      <p class="dim">{drill.about}</p>
      {worst[0]?.unit.lost ? <p class="bad">{worst[0].unit.sentence}</p> : <p>{drill.nothing}</p>}
      <ul class="stack">
        {worst.map(({ route, requests, unit }) => (
          <li key={`${route} ${unit.unit}`}>
            <strong>{route}</strong> {drill.without(unit.name)}{' '}
            <strong class={unit.lost ? 'bad' : ''}>
              <Share of={unit.lost} />
            </strong>{' '}
            {drill.lost(Math.round((unit.lost ?? 0) * requests), requests)}
            {unit.unknown ? `, ${drill.unknown(percent(unit.unknown))}` : ''}
            <Why causes={unit.causes} />
          </li>
        ))}
      </ul>
      {rows.length > MOST && <p class="dim">{texts.effects.more(rows.length - MOST)}</p>}
    </section>
  )
}
