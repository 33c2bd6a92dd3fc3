/** The time range of the page: common lengths, or exact times. */
import { useSignal } from '@preact/signals'
import { agoOf, boundsOf, rangeAt } from '../address.ts'
import { moment } from '../format.ts'
import { current, gatewayNow, go } from '../store.ts'
import { en } from '../words/en.ts'
import { Menu } from './menu.tsx'

const LENGTHS = ['-5m', '-15m', '-60m', '-6h', '-24h', '-7d', '-30d', '-90d'] as const

/** Days and months of the calendar. */
const CALENDAR = [
  ['today', { from: 'today', to: null }],
  ['yesterday', { from: 'yesterday', to: 'today' }],
  ['month', { from: 'month', to: null }],
  ['lastMonth', { from: 'last-month', to: 'month' }],
] as const

/** `15 min`, `6 hours`, `30 days`. */
const lengthText = (ms: number): string => {
  const minutes = ms / 60_000
  if (minutes < 60) return en.range.minutes(minutes)
  if (minutes < 2 * 1440) return en.range.hours(minutes / 60)
  return en.range.days(minutes / 1440)
}

/** The range in words. */
export const rangeText = (): string => {
  const { from, to } = boundsOf(current.value)
  const ago = agoOf(from)
  if (ago !== null && to === 'now') return en.range.last(lengthText(ago))
  const named = CALENDAR.find(([, bounds]) => bounds.from === from && (bounds.to ?? 'now') === to)
  if (named) return en.range[named[0]]
  const range = rangeAt(current.value, gatewayNow())
  return `${moment(range.from)} – ${to === 'now' ? en.time.justNow : moment(range.to)}`
}

/** The value of a field for local time. */
const fieldValue = (at: number): string =>
  new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

const Custom = ({ close }: { readonly close: () => void }) => {
  const { from, to } = rangeAt(current.value, gatewayNow())
  const problem = useSignal('')
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement)) return
    const data = new FormData(event.currentTarget)
    const [start, end] = ['from', 'to'].map((name) => new Date(String(data.get(name))))
    if (!start || !end || !(start < end)) {
      problem.value = en.range.backwards
      return
    }
    go({ ...current.value, from: start.toISOString(), to: end.toISOString() })
    close()
  }
  return (
    <form class="range-custom" onSubmit={submit}>
      <p class="dim">{en.range.custom}</p>
      <label>
        {en.range.from}
        <input type="datetime-local" name="from" required defaultValue={fieldValue(from)} />
      </label>
      <label>
        {en.range.to}
        <input type="datetime-local" name="to" required defaultValue={fieldValue(to)} />
      </label>
      {problem.value !== '' && (
        <p class="bad" role="alert">
          {problem.value}
        </p>
      )}
      <button type="submit" class="button">
        {en.range.apply}
      </button>
    </form>
  )
}

export const RangePicker = () => {
  const { from, to } = boundsOf(current.value)
  return (
    <Menu className="range" label={rangeText()} name={`${en.range.label}: ${rangeText()}`}>
      {(close) => (
        <>
          <div class="range-lengths">
            {LENGTHS.map((length) => (
              <button
                key={length}
                type="button"
                aria-pressed={from === length && to === 'now'}
                onClick={() => {
                  go({ ...current.value, from: length, to: null })
                  close()
                }}
              >
                {lengthText(agoOf(length) ?? 0)}
              </button>
            ))}
            {CALENDAR.map(([name, bounds]) => (
              <button
                key={name}
                type="button"
                aria-pressed={from === bounds.from && to === (bounds.to ?? 'now')}
                onClick={() => {
                  go({ ...current.value, ...bounds })
                  close()
                }}
              >
                {en.range[name]}
              </button>
            ))}
          </div>
          <Custom close={close} />
        </>
      )}
    </Menu>
  )
}
