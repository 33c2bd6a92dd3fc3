/** The audit log. */
import { z } from 'zod'
import { defined, runFor } from '../control.ts'
import { listOf, page, time } from '../fields.ts'
import { row } from '../row.ts'

const entry = z
  .strictObject({
    id: z.string(),
    at: time,
    actor: z.strictObject({ kind: z.string(), id: z.string(), name: z.string() }),
    from: z.string().nullable().describe('The address of the client'),
    action: z.string(),
    object: z.string(),
    before: z.unknown().optional(),
    after: z.unknown().optional(),
    request_id: z.string().nullable(),
  })
  .catchall(z.unknown())
  .meta({ id: 'AuditEntry' })

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
      from: time.optional(),
      to: time.optional(),
    }),
    answer: listOf(entry),
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
      },
    },
    handle: ({ control }, call) => runFor(control, call, { do: 'audit', query: defined(call.query) }),
  }),
  row({
    method: 'GET',
    path: '/audit/verify',
    summary: 'Check that no audit entry was changed or removed',
    role: 'admin',
    scope: 'all',
    answer: z.strictObject({ ok: z.boolean(), checked: z.int(), problem: z.string().nullable() }),
    example: { answer: { ok: true, checked: 812, problem: null } },
    handle: ({ control }, call) => runFor(control, call, { do: 'verify' }),
  }),
]
