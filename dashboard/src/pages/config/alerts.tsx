/** Alerts: the receiver with a test, what is open, the rules, and what is over. For operators of all teams. */
import { useSignal } from '@preact/signals'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { ALERTS } from '../../../../src/server/answers/alerts.ts'
import { hasRole, offlineSince, problemIn, read, useResource, write } from '../../api.ts'
import { duration, moment, percent } from '../../format.ts'
import { PlainTable } from '../../parts/plain-table.tsx'
import { Code, Failed, Loading, Time, WithCode } from '../../parts/states.tsx'
import { en } from '../../words/en.ts'
import { setup } from '../../words/setup.ts'
import { Needs } from './needs.tsx'

const { alerts: text } = setup

type ShownAlerts = Shown<typeof ALERTS>
type Rule = ShownAlerts['rules'][number]
type Alert = ShownAlerts['data'][number] & { readonly ended_at?: string }

/** ms between two readings: the gateway looks at its state every 5 s. */
const EVERY = 10_000
const EXAMPLE = `alerts:
  url: "\${ALERTS_URL}"       # address of a webhook
  secret: "\${ALERTS_SECRET}" # signs the requests; may be left out
  format: generic            # or slack`

type TestResult = { readonly delivered: boolean; readonly problem: string | null }

const TestButton = () => {
  const isBusy = useSignal(false)
  const result = useSignal<TestResult | null>(null)
  const send = async () => {
    isBusy.value = true
    result.value = null
    try {
      result.value = await write<TestResult>('POST', '/alerts/test')
    } catch (error) {
      result.value = { delivered: false, problem: problemIn(error).message }
    }
    isBusy.value = false
  }
  return (
    <div class="row">
      <button
        type="button"
        class="button"
        disabled={isBusy.value || offlineSince.value !== null}
        onClick={() => void send()}
      >
        {text.test}
      </button>
      <span role="status" class={result.value?.delivered ? 'ok' : 'bad'}>
        {result.value && (result.value.delivered ? `✓ ${text.sent}` : `✗ ${text.notSent(result.value.problem ?? '')}`)}
      </span>
      {offlineSince.value !== null && <span class="dim">{en.states.offlineWrite}</span>}
    </div>
  )
}

const Receiver = ({ receiver, last, waiting, undelivered }: ShownAlerts) => (
  <section class="panel">
    <h2>{text.receiver}</h2>
    {receiver ? (
      <>
        <p>
          <span class="mono">{receiver.url}</span>{' '}
          <span class="dim">{text.kind(receiver.format, receiver.signed)}</span>
        </p>
        <p>
          {last === null ? (
            <span class="dim">{text.noDelivery}</span>
          ) : (
            <span class={last.result === 'sent' ? 'ok' : 'bad'}>
              {last.result === 'sent' ? '✓' : '✗'} {text.delivery[last.result]}{' '}
              <Time at={last.at}>{moment(Date.parse(last.at))}</Time>
              {last.reason !== null && ` – ${last.reason}`}
            </span>
          )}
        </p>
        {waiting > 0 && <p class="warn">▲ {text.waiting(waiting)}</p>}
        {undelivered > 0 && <p class="bad">✗ {text.undelivered(undelivered)}</p>}
        <TestButton />
      </>
    ) : (
      <>
        <p class="warn">▲ {text.none}</p>
        <p>{text.noneAbout}</p>
        <Code text={EXAMPLE} />
      </>
    )}
  </section>
)

const AlertLine = ({ severity, type, message, since, ended_at: ended }: Alert) => (
  <li>
    <div class="row">
      <strong class={ended !== undefined ? 'dim' : severity === 'critical' ? 'bad' : 'warn'}>
        <span aria-hidden="true">{severity === 'critical' ? '✗' : '▲'}</span> {text.severity[severity]}
      </strong>
      <span class="mono">{type}</span>
      {ended !== undefined && <span class="dim">{text.lasted(duration(Date.parse(ended) - Date.parse(since)))}</span>}
      <Time at={since}>{moment(Date.parse(since))}</Time>
    </div>
    {message}
  </li>
)

const AlertList = ({
  label,
  none,
  alerts,
}: {
  readonly label: string
  readonly none: string
  readonly alerts: readonly Alert[]
}) => (
  <section class="stack">
    <h2>{label}</h2>
    {alerts.length === 0 && <p class="dim">{none}</p>}
    <ul class="lines" aria-label={label}>
      {alerts.map((alert) => (
        <AlertLine key={JSON.stringify([alert.object.id, alert.type, alert.threshold, alert.since])} {...alert} />
      ))}
    </ul>
  </section>
)

const percents = (values: readonly number[]): string => values.map((value) => percent(value / 100)).join(', ')

/** The limit of a rule in words. `all`: the values of all rules, by name. */
const limitText = ({ rule, value, on }: Rule, all: ReadonlyMap<string, unknown>): string => {
  if (!on) return text.off
  if (Array.isArray(value)) return rule === 'budget' ? percents(value) : text.limits.days(value)
  if (typeof value !== 'number') return text.on
  if (rule === 'failedShare')
    return text.limits.failed(
      percents([value]),
      Number(all.get('failedLeast')),
      duration(Number(all.get('failedWindow'))),
    )
  if (rule === 'estimatedShare') return percents([value])
  return rule === 'guardErrors' ? text.limits.requests(value) : duration(value)
}

const names: { readonly [rule: string]: string } = text.names
/** They belong to `failedShare`. */
const PARTS: readonly string[] = ['failedWindow', 'failedLeast']

/** The lines that turn a rule on. */
const linesOf = ({ rule, default: value }: Rule): string => `alerts:\n  rules:\n    ${rule}: ${JSON.stringify(value)}`

const Rules = ({ rules }: Pick<ShownAlerts, 'rules'>) => {
  const values = new Map(rules.map(({ rule, value }) => [rule, value]))
  return (
    <section class="stack">
      <h2>{text.rules}</h2>
      <p class="dim">{text.rulesAbout}</p>
      <PlainTable
        label={text.rules}
        rows={rules.filter(({ rule }) => !PARTS.includes(rule))}
        keyOf={({ rule }) => rule}
        columns={[
          { name: text.columns.rule, cell: ({ rule }) => names[rule] ?? rule },
          {
            name: text.columns.limit,
            cell: (rule) => <span class={rule.on ? undefined : 'warn'}>{limitText(rule, values)}</span>,
          },
          {
            name: text.columns.last,
            cell: ({ last_at: at }) =>
              at === null ? <span class="dim">{text.never}</span> : <Time at={at}>{moment(Date.parse(at))}</Time>,
          },
          {
            name: text.columns.about,
            cell: (rule) => (
              <>
                <WithCode text={rule.about} />{' '}
                <span class="small dim mono config-variable">alerts.rules.{rule.rule}</span>
                {!rule.on && (
                  <details>
                    <summary>{setup.paste}</summary>
                    <Code text={linesOf(rule)} />
                  </details>
                )}
              </>
            ),
          },
        ]}
      />
    </section>
  )
}

export const AlertsSection = () => {
  const isOperator = hasRole('operator', 'all')
  const { value, problem, reload } = useResource(isOperator ? 'alerts' : null, () => read<ShownAlerts>('/alerts'), {
    every: EVERY,
  })
  if (!isOperator) return <Needs why={text.needs} />
  return (
    <div class="stack">
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && !problem && <Loading />}
      {value && (
        <>
          <Receiver {...value} />
          {value.configured && <AlertList label={text.open} none={text.noOpen} alerts={value.data} />}
          <Rules rules={value.rules} />
          {value.configured && <AlertList label={text.past} none={text.noPast} alerts={value.past} />}
        </>
      )}
    </div>
  )
}
