/** Sign-ins of programs: where people are signed in with `headgate login` or another program. */
import { z } from 'zod'
import { ENDED_SIGN_IN, SIGN_INS } from '../../answers/sign-ins.ts'
import { defined, runFor } from '../control.ts'
import { page } from '../fields.ts'
import { row } from '../row.ts'

const EXAMPLE = {
  id: 'sgn_kdvbwqhzmrtc',
  object: 'sign_in' as const,
  person: 'usr_kdvbwqhzmrtc',
  email: 'ann@corp.example',
  name: 'Ann Lee',
  client: 'claude_code',
  address: '192.0.2.7',
  created_at: '2026-11-23T10:00:00.000Z',
  used_at: '2026-11-27T10:00:00.000Z',
  ends_at: '2026-12-11T10:00:00.000Z',
}

export const signInRows = [
  row({
    method: 'GET',
    path: '/sign-ins',
    summary: 'List the sign-ins of programs, the one used last first',
    about:
      'Programs that people have allowed by the device flow (docs/sign-in.md), such as `headgate login`. Tokens are never shown.',
    role: 'admin',
    scope: 'all',
    query: z.strictObject({
      ...page,
      person: z
        .string()
        .regex(/^usr_[a-z]{12}$/)
        .optional()
        .describe('ID of a person'),
    }),
    answer: SIGN_INS,
    example: { answer: { object: 'list', data: [EXAMPLE], has_more: false, next: null } },
    handle: ({ control }, call) => runFor(control, call, { do: 'sign_ins', query: defined(call.query) }),
  }),
  row({
    method: 'DELETE',
    path: '/sign-ins/{id}',
    summary: 'End a sign-in of a program',
    about: 'Its tokens are refused within five seconds, in all processes. The person may sign in again.',
    role: 'admin',
    scope: 'all',
    params: z.strictObject({ id: z.string().regex(/^sgn_[a-z]{12}$/) }),
    answer: ENDED_SIGN_IN,
    example: { params: { id: EXAMPLE.id }, answer: { id: EXAMPLE.id, object: 'sign_in', deleted: true } },
    handle: ({ control }, call) => runFor(control, call, { do: 'sign_in_delete', id: call.params.id }),
  }),
]
