/** What providers that are assumed to be off mean for requests: of the routes, and of models that clients name directly. */
import { useResource, write } from '../../api.ts'
import { count, money } from '../../format.ts'
import { Failed, Loading, Unknown } from '../../parts/states.tsx'
import { lossOf, type NameEffect, type NameEffects, placeName } from '../../plans.ts'
import { routes as texts } from '../../words/routes.ts'

const { effects } = texts
/** ms between two readings: the usage of a day changes slowly. */
const EVERY = 60_000
/** Names that are shown, and that a sentence has. */
const MOST = { rows: 20, names: 3 }

const extraText = (amount: string): string => `${amount.startsWith('-') ? '' : '+'}${money(amount)}`

const Extra = ({ one }: { readonly one: NameEffect }) => {
  if (one.affected === 0 || one.answers === null) return '–'
  if (one.extra_per_hour === null) return <Unknown why={effects.noPrice} />
  return extraText(one.extra_per_hour)
}

const Summary = ({ data }: Pick<NameEffects, 'data'>) => {
  const { direct, extra, unknown } = lossOf(data)
  const names = direct.map(({ name }) => name)
  const requests = direct.reduce((sum, one) => sum + one.requests, 0)
  const shown = names.slice(0, MOST.names).join(', ')
  return (
    <>
      {requests > 0 && (
        <p class="bad" role="status">
          {effects.direct(
            requests,
            names.length > MOST.names ? effects.andMore(shown, names.length - MOST.names) : shown,
          )}
        </p>
      )}
      {extra !== null && <p>{effects.total(extraText(extra))}</p>}
      {unknown > 0 && <p class="warn">{effects.unknown(unknown)}</p>}
    </>
  )
}

export const Effects = ({ down }: { readonly down: readonly string[] }) => {
  const { value, problem, isLoading, reload } = useResource(
    `what-if ${down.join(' ')}`,
    () => write<NameEffects>('POST', '/what-if', { assume: { down } }),
    { every: EVERY, isolated: true },
  )
  if (problem) return <Failed problem={problem} retry={reload} />
  if (!value) return isLoading ? <Loading rows={2} /> : null
  const rows = value.data.filter(
    ({ affected, loses_target: isLost, requests }) => affected > 0 || (isLost && requests > 0),
  )
  return (
    <>
      <Summary data={value.data} />
      {rows.length > 0 && (
        <table class="data-table routes-effects" aria-label={effects.label}>
          <thead>
            <tr>
              {[effects.name, effects.requests, effects.affected, effects.substitute, effects.cost].map((text) => (
                <th key={text} scope="col">
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST.rows).map((one) => (
              <tr key={`${one.direct} ${one.team?.id} ${one.name} ${one.style}`}>
                <td>
                  {one.name} <span class="small dim">{one.direct ? effects.isDirect : (one.team?.name ?? '')}</span>
                </td>
                <td>{count(one.requests)}</td>
                <td>{count(one.affected)}</td>
                <td class={one.answers ? '' : 'bad'}>{one.answers ? placeName(one.answers) : texts.list.noTarget}</td>
                <td>
                  <Extra one={one} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {rows.length > MOST.rows && <p class="dim">{effects.more(rows.length - MOST.rows)}</p>}
      <p class="small dim">{effects.about(value.hours)}</p>
    </>
  )
}
