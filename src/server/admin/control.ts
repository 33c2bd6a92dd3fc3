/** Operations on `control.db` for the rows, and their results as answers. */
import { bad, type Failure, type FailureKind, fail, good, type Outcome } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { ControlContext, ControlError, ControlOperation } from '../../records/store/record-operations.ts'
import type { Control } from './deps.ts'
import type { AdminCall, Answered } from './row.ts'

/** Runs the operation of a call. `Answer`: what the operation returns, as the schema of the row describes it. */
export const runFor = async <Answer>(
  { run }: Control,
  call: AdminCall,
  operation: ControlOperation,
): Promise<Outcome<Answered<Answer>>> => {
  const result = await run(operation, contextOf(call))
  if (!result.ok) return bad(failureOf(result.error))
  const replayed = result.replayed === true && { headers: { 'x-headgate-idempotent': 'stored' } }
  // The thread returns plain JSON. A test validates the answer of every row by its schema.
  return good({ body: result.value as unknown as Answer, status: result.status, ...replayed })
}

/**
 * Adds a row to the audit log, for an action that changes no record. A database that cannot be written must not prevent the
 * action; its problem is logged and shown elsewhere.
 */
export const noteAudit = async (
  { run }: Control,
  call: AdminCall,
  entry: { readonly action: string; readonly object: string; readonly details: JsonObject },
): Promise<void> => {
  await run({ do: 'note', ...entry }, { ...contextOf(call), idempotencyKey: null })
}

/** The same for an action that an Idempotency-Key repeats: whether it was noted before. It must be noted then. */
export const noteOnce = async (
  { run }: Control,
  call: AdminCall,
  entry: { readonly action: string; readonly object: string; readonly details: JsonObject },
): Promise<Outcome<'first' | 'repeated'>> => {
  const result = await run({ do: 'note', ...entry }, contextOf(call))
  if (!result.ok) return bad(failureOf(result.error))
  return good(result.replayed === true ? 'repeated' : 'first')
}

export const contextOf = ({ actor, request, teams, idempotencyKey }: AdminCall): ControlContext => {
  if (!actor) throw new Error('an operation on control.db has no actor')
  const { kind, id, name } = actor
  return { actor: { kind, id, name }, from: request.address, requestId: request.id, teams, idempotencyKey }
}

const KINDS: { readonly [status: number]: FailureKind } = {
  400: 'invalid_value',
  403: 'forbidden',
  404: 'not_found',
  409: 'record_conflict',
  412: 'precondition_failed',
  422: 'idempotency_key_reused',
}

/** A refusal of the thread, with its code. */
export const failureOf = ({ status, code, message, path, errors }: ControlError): Failure =>
  fail(KINDS[status] ?? 'storage', message, {
    code,
    ...(path !== null && path !== '' && { param: path }),
    ...(errors ? { errors } : path !== null && path !== '' && { errors: [{ path, message }] }),
    ...(status === 503 && { retryAfter: 2_000 }),
  })

/** Adds a warning for the operator to an answer. */
export const withWarning = <Answer>(outcome: Outcome<Answered<Answer>>, warning: string): Outcome<Answered<Answer>> => {
  if (!outcome.ok || 'stream' in outcome.value) return outcome
  const { headers } = outcome.value
  const before = headers?.['x-headgate-warning']
  const all = before === undefined ? warning : `${before}; ${warning}`
  return good({ ...outcome.value, headers: { ...headers, 'x-headgate-warning': all } })
}

/** The same after a write by which an open gateway requires keys. */
export const withClosed = <Answer>(
  { control }: { readonly control: Control },
  outcome: Outcome<Answered<Answer>>,
): Outcome<Answered<Answer>> => {
  if (control.isOpen()) return outcome
  const { keys } = control.directory()
  return withWarning(outcome, keys.size > 0 ? CLOSED : `${CLOSED}. There is none so far: headgate keys create NAME`)
}

const CLOSED =
  'from now on every model call needs a client key (AUTH_REQUIRED=true keeps it so if the data folder is lost, AUTH_REQUIRED=false keeps the gateway open)'

type Defined<T> = { [Name in keyof T]: Exclude<T[Name], undefined> }

/** An object without the members that are undefined. */
export const defined = <T extends object>(value: T): Defined<T> =>
  // Only such members are left out.
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Defined<T>
