/** Alerts: the receiver and the rules, those that were sent, and a test of the receiver. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { z } from 'zod'
import { jsonSchemaOf } from '../../../config/definition.ts'
import type { Alerts } from '../../../core/config.ts'
import { bad, fail, good } from '../../../core/failure.ts'
import { object } from '../../../core/json.ts'
import type { AlertingState } from '../../../observe/alerts/alerting.ts'
import { sendAlert, shownReceiver, testBody } from '../../../observe/alerts/webhook.ts'
import { ALERTS } from '../../answers/alerts.ts'
import { noteAudit } from '../control.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

const NO_ALERTS: AlertingState = { alerts: [], past: [], fired: {}, waiting: 0, undelivered: 0, last: null }

/** Every rule of the schema with its value. */
const rulesOf = async (running: Alerts | null, fired: AlertingState['fired']) => {
  const { alertsSchema } = await import('../../../config/alerts-schema.ts')
  const values: { readonly [name: string]: unknown } = running?.rules ?? {}
  return Object.entries(jsonSchemaOf(alertsSchema.shape.rules).properties ?? {}).map(([name, schema]) => {
    const value = values[name] ?? schema.default
    const on = Array.isArray(value) ? value.length > 0 : value !== 0 && value !== false
    return {
      rule: name,
      about: schema.description ?? '',
      value,
      default: schema.default,
      on,
      last_at: fired[name] ?? null,
    }
  })
}

const NOT_CONFIGURED = fail(
  'record_conflict',
  'No alerts are configured. Add `alerts` with the address of a receiver (`url`) to headgate.yaml.',
)

export const alertRows = [
  row({
    method: 'GET',
    path: '/alerts',
    summary: 'List the alerts that were sent and are not over, newest first',
    about:
      'At most 200, with the receiver, the rules, the last alerts that are over, and the result of the last delivery. Receiver and rules are in headgate.yaml.',
    role: 'operator',
    scope: 'all',
    answer: ALERTS,
    example: {
      answer: {
        object: 'list',
        data: [
          {
            rule: 'budget',
            type: 'budget.threshold',
            severity: 'warning',
            object: { kind: 'budget', id: 'bud_kdvbwqhzmrtc', name: 'search-month' },
            threshold: '80',
            value: 2000.41,
            limit: 2500,
            message: 'The budget "search-month" has spent 2000.41 of 2500.00 dollars (80 % reached).',
            since: '2026-11-23T10:00:00.000Z',
            sent_at: '2026-11-23T10:00:00.000Z',
          },
        ],
        has_more: false,
        next: null,
        configured: true,
        receiver: { url: 'https://hooks.example.com/…', format: 'generic', signed: true },
        rules: [
          {
            rule: 'circuitOpen',
            about: 'a provider has no closed circuit, or a route no usable target, for this time (ms); 0 is off',
            value: 60_000,
            default: 60_000,
            on: true,
            last_at: null,
          },
        ],
        past: [],
        waiting: 0,
        undelivered: 0,
        last: { at: '2026-11-23T10:00:00.412Z', rule: 'budget', result: 'sent', reason: null },
      },
    },
    async handle(deps) {
      const { answers } = await askProcesses(deps, { do: 'alerts' })
      const found = answers.map(({ value }) => object(value.state)).find((state) => state !== undefined)
      // `answerHere` returns the state of `Alerting`.
      const { alerts: data, past, fired, ...delivery } = (found as AlertingState | undefined) ?? NO_ALERTS
      const running = deps.configuration.running().alerts
      const rules = await rulesOf(running, fired)
      const list = { object: 'list' as const, data: [...data], has_more: false, next: null }
      const configured = { configured: running !== null, receiver: running && shownReceiver(running), rules }
      return good({ body: { ...list, ...configured, past: [...past], ...delivery } })
    },
  }),
  row({
    method: 'POST',
    path: '/alerts/test',
    summary: 'Send a test to the receiver of the alerts',
    about:
      'One request, signed as alerts are, with the type `test`. The answer says whether the receiver accepted it within 10 s. The address is that of headgate.yaml and cannot be changed here.',
    role: 'operator',
    scope: 'all',
    answer: z
      .strictObject({
        object: z.literal('alert.test'),
        id: z.string().describe('The header webhook-id'),
        delivered: z.boolean(),
        problem: z.string().nullable().describe('Why it was not delivered'),
      })
      .meta({ id: 'AlertTest' }),
    example: {
      answer: {
        object: 'alert.test',
        id: 'msg_7c2a4f0e-6f0b-4a53-9a43-0d1f5b3c2e11',
        delivered: false,
        problem: 'the receiver responded with status 404',
      },
    },
    async handle(deps, call) {
      const settings = deps.configuration.running().alerts
      if (!settings) return bad(NOT_CONFIGURED)
      const id = `msg_${randomUUID()}`
      const { dial } = deps.gateway.world
      const about = { id, at: deps.gateway.world.date(), node: hostname() }
      const body = JSON.stringify(testBody(settings.format, about))
      const problem = await sendAlert(settings, { id, body }, { dial, signal: new AbortController().signal })
      const delivered = problem === null
      await noteAudit(deps.control, call, { action: 'alerts.test', object: 'alerts', details: { delivered } })
      return good({ body: { object: 'alert.test' as const, id, delivered, problem } })
    },
  }),
]
