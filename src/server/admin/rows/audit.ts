/** The audit log. */
import { z } from 'zod'
import type { Directory } from '../../../core/accounts.ts'
import { good } from '../../../core/failure.ts'
import { isObject } from '../../../core/json.ts'
import { time } from '../../../records/entities/shown.ts'
import { AUDIT_PAGE, AUDIT_VERIFICATION } from '../../answers/audit.ts'
import { defined, runFor } from '../control.ts'
import { page } from '../fields.ts'
import { row } from '../row.ts'

type AuditAnswer = z.input<typeof AUDIT_PAGE>

const ID = /(?:team|key|bud|prc|adm|rte|usr)_[a-z]{12}/g

/** The names of the IDs in entries: those of now, or else those that the entries state. */
const namesIn = (
  entries: AuditAnswer['data'],
  { teams, keys, budgets }: Directory,
): Readonly<Record<string, string>> => {
  const stated = new Map<string, string>()
  for (const { before, after } of entries)
    for (const one of [before, after])
      if (isObject(one) && typeof one.id === 'string' && typeof one.name === 'string') stated.set(one.id, one.name)
  const ids = new Set(JSON.stringify(entries).match(ID))
  return Object.fromEntries(
    [...ids].flatMap((id) => {
      const name = (teams.get(id) ?? keys.get(id) ?? budgets.get(id))?.name ?? stated.get(id)
      return name === undefined ? [] : [[id, name]]
    }),
  )
}

export const auditRows = [
  row({
    method: 'GET',
    path: '/audit',
    summary: 'List what was changed, by whom, newest first',
    about: 'Each write, sign-in and shown secret has an entry; secrets appear as their last 4 characters.',
    role: 'admin',
    scope: 'all',
    query: z.strictObject({
      ...page,
      actor: z.array(z.string()).optional().describe('IDs of actors'),
      action: z.array(z.string()).optional(),
      object: z.array(z.string()).optional().describe('IDs'),
      kind: z
        .array(z.string().regex(/^[a-z_]{1,40}$/))
        .optional()
        .describe('The part of the action before the dot, such as `key`'),
      sign_ins: z.enum(['only', 'none']).optional().describe('Only sign-ins and their ends, or none of them'),
      q: z
        .string()
        .min(1)
        .max(200)
        .optional()
        .describe('Text in the action, the object, the actor, the address or the details'),
      from: time.optional(),
      to: time.optional(),
    }),
    answer: AUDIT_PAGE,
    example: {
      query: { action: 'key.create' },
      answer: {
        object: 'list',
        data: [
          {
            id: 'aud_kdvbwqhzmrtc',
            at: '2026-11-23T10:00:00.000Z',
            actor: { kind: 'bootstrap', id: 'bootstrap', name: 'auth.admin' },
            from: '203.0.113.7',
            action: 'key.create',
            object: 'key_kdvbwqhzmrtc',
            before: null,
            after: { id: 'key_kdvbwqhzmrtc', name: 'search-prod', last4: 'Xq3d' },
            request_id: 'req_kdvbwqhzmrtckdvbwqhz',
          },
        ],
        has_more: false,
        next: null,
        names: { key_kdvbwqhzmrtc: 'search-prod' },
      },
    },
    async handle({ control }, call) {
      const found = await runFor<AuditAnswer>(control, call, { do: 'audit', query: defined(call.query) })
      if (!found.ok || 'stream' in found.value) return found
      const { body } = found.value
      return good({ ...found.value, body: { ...body, names: namesIn(body.data, control.directory()) } })
    },
  }),
  row({
    method: 'GET',
    path: '/audit/verify',
    summary: 'Check that no audit entry was changed or removed',
    role: 'admin',
    scope: 'all',
    answer: AUDIT_VERIFICATION,
    example: { answer: { ok: true, checked: 812, problem: null } },
    handle: ({ control }, call) => runFor(control, call, { do: 'verify' }),
  }),
]
