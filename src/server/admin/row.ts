/** A row of the table of the admin API: one method at one path, with its access, its schemas and its handler. */
import type { z } from 'zod'
import type { Outcome } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { Unchanged } from '../../records/entities/shown.ts'
import type { AdminRequest } from '../admin-request.ts'
import type { AdminActor, Role, RoleScope } from './actor.ts'
import type { AdminDeps } from './deps.ts'

export type AdminMethod = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A request that passed all checks of its row. */
export type AdminCall<Params = unknown, Query = unknown, Body = unknown> = {
  readonly params: Params
  readonly query: Query
  readonly body: Body
  /** Null only on rows without a role. */
  readonly actor: AdminActor | null
  /** The teams for which the actor has the role of the row; null: all. */
  readonly teams: readonly string[] | null
  /** The revision in If-Match; null: any (`?force=true`), or the row has no condition. */
  readonly revision: number | null
  /** Null: the request has no Idempotency-Key. */
  readonly idempotencyKey: string | null
  readonly request: AdminRequest
}

/** What a handler returns. `stream`: it writes the response itself. */
export type Answered<T = unknown> =
  | {
      readonly body: T
      readonly status?: number
      readonly headers?: Readonly<Record<string, string>>
    }
  | { readonly stream: (reply: ResponseWriter) => void | Promise<void> }

/** An answer that is not JSON. */
export type MediaAnswer = { readonly media: string; readonly about: string }

/** An example of a request to the row, and of its answer. Tests send it. */
export type RowExample = {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly answer?: unknown
}

export type AdminRow = {
  readonly method: AdminMethod
  /** Below the base path: `/keys/{id}/rotate`. */
  readonly path: string
  readonly summary: string
  readonly about?: string
  /** Null: no credentials are needed. */
  readonly role: Role | null
  readonly scope: RoleScope
  /** The members of the path; texts. */
  readonly params?: z.ZodObject
  /** An object, or a transformation of one. */
  readonly query?: z.ZodType
  /** `text`: a body of any type, as text. `json`: the text of a JSON body, which is not parsed. */
  readonly body?: z.ZodType | 'text' | 'json'
  readonly answer: z.ZodType | MediaAnswer
  /** Status of a success; 200 by default. */
  readonly status?: number
  /** PATCH and DELETE of an object with a revision: If-Match or `?force=true` is required. */
  readonly conditional?: true
  readonly example: RowExample
  readonly handle: (deps: AdminDeps, call: AdminCall) => Outcome<Answered> | Promise<Outcome<Answered>>
}

type ReadBy<Schema> = Schema extends z.ZodType ? z.output<Schema> : Schema extends 'text' | 'json' ? string : undefined
type WrittenBy<Schema> = Schema extends z.ZodType ? Unchanged<z.input<Schema>> : never
type RowSpec<P, Q, B, A> = Omit<AdminRow, 'params' | 'query' | 'body' | 'answer' | 'handle'> & {
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  readonly answer: A
  readonly handle: (
    deps: AdminDeps,
    call: AdminCall<ReadBy<P>, ReadBy<Q>, ReadBy<B>>,
  ) => Outcome<Answered<WrittenBy<A>>> | Promise<Outcome<Answered<WrittenBy<A>>>>
}

/** Creates a row; the schemas determine the types of its handler. */
export const row = <
  A extends z.ZodType | MediaAnswer,
  P extends z.ZodObject | undefined = undefined,
  Q extends z.ZodType | undefined = undefined,
  B extends z.ZodType | 'text' | 'json' | undefined = undefined,
>(
  spec: RowSpec<P, Q, B, A>,
  // The dispatcher passes what the schemas of the same row have returned.
): AdminRow => spec as unknown as AdminRow
