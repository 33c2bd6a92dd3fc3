/** Alerts: those that were sent and are not over, and a test of their receiver. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { z } from 'zod'
import { bad, fail, good } from '../../../core/failure.ts'
import { object } from '../../../core/json.ts'
import type { AlertingState } from '../../../observe/alerts/alerting.ts'
import { sendAlert, testBody } from '../../../observe/alerts/webhook.ts'
import { time } from '../../../records/entities/shown.ts'
import { count, listOf } from '../../answers/fields.ts'
import { noteAudit } from '../control.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

const alert = z
  .strictObject({
    type: z.string().describe('As the webhook has it, such as `budget.threshold`'),
    severity: z.enum(['warning', 'critical']),
    object: z.strictObject({ kind: z.string(), id: z.string(), name: z.string() }),
    threshold: z.string().nullable(),
    value: z.number().nullable(),
    limit: z.number().nullable(),
    message: z.string(),
    since: time,
    sent_at: time,
  })
  .meta({ id: 'Alert' })

const alerts = z
  .strictObject({
    ...listOf(alert).shape,
    configured: z.boolean().describe('Whether `alerts` is in headgate.yaml; false: none are sent'),
    waiting: count.describe('Alerts that the receiver has not confirmed yet'),
    undelivered: count.describe('Alerts that were dropped or given up; the next alert states their number'),
    last: z
      .strictObject({
        at: time,
        rule: z.string(),
        result: z.enum(['sent', 'failed']),
        reason: z.string().nullable(),
      })
      .nullable()
      .describe('The last delivery that succeeded or was given up; null: none since the start'),
  })
  .meta({ id: 'Alerts' })

const NO_ALERTS: AlertingState = { alerts: [], waiting: 0, undelivered: 0, last: null }

const NOT_CONFIGURED = fail(
  'record_conflict',
  'No alerts are configured. Add `alerts` with the address of a receiver (`url`) to headgate.yaml.',
)

export const alertRows = [
  row({
    method: 'GET',
    path: '/alerts',
    summary: 'List the alerts that were sent and are not over, newest first',
    about: 'At most 200, and the result of the last delivery. The rules are in headgate.yaml.',
    role: 'operator',
    scope: 'all',
    answer: alerts,
    example: {
      answer: {
        object: 'list',
        data: [
          {
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
        waiting: 0,
        undelivered: 0,
        last: { at: '2026-11-23T10:00:00.412Z', rule: 'budget', result: 'sent', reason: null },
      },
    },
    async handle(deps) {
      const { answers } = await askProcesses(deps, { do: 'alerts' })
      const found = answers.map(({ value }) => object(value.state)).find((state) => state !== undefined)
      // `answerHere` returns the state of `Alerting`.
      const { alerts: data, ...delivery } = (found as AlertingState | undefined) ?? NO_ALERTS
      const configured = deps.configuration.running().alerts !== null
      return good({ body: { object: 'list' as const, data, has_more: false, next: null, configured, ...delivery } })
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
