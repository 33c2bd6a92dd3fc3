/** The audit log. */
import { z } from 'zod'
import { time } from '../../../records/entities/shown.ts'
import { AUDIT_PAGE, AUDIT_VERIFICATION } from '../../answers/audit.ts'
import { defined, runFor } from '../control.ts'
import { page } from '../fields.ts'
import { row } from '../row.ts'

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
    answer: AUDIT_VERIFICATION,
    example: { answer: { ok: true, checked: 812, problem: null } },
    handle: ({ control }, call) => runFor(control, call, { do: 'verify' }),
  }),
]
