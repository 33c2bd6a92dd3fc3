/**
 * Certificates that clients trust which have no setting for it: those of Postgres and Redis, and of the command line. They are
 * Node's defaults in this thread, and in the threads that it starts from now on (`thread-entry.mjs`).
 */
import type { EgressTls } from '../../core/egress.ts'

/** The name of the value that a thread gets; see `worker_threads.setEnvironmentData`. */
const KEY = 'headgate authorities'

type Authorities = Pick<EgressTls, 'ca' | 'caOnly'>

/** Node's own, with those of its variables. Null: they are the defaults. */
let replaced: readonly string[] | null = null

const tls = () => process.getBuiltinModule('node:tls')

/** PEM, each one. */
export const nodeAuthorities = (): readonly string[] => replaced ?? tls().getCACertificates('default')

/**
 * Without `ca` nothing is loaded. Returns whether this Node can do it: from 24.5.
 */
export const trustByDefault = ({ ca, caOnly }: Authorities): boolean => {
  if (ca === '' && replaced === null) return true
  const { setDefaultCACertificates } = tls()
  if (setDefaultCACertificates === undefined) return false
  replaced = nodeAuthorities()
  setDefaultCACertificates(ca === '' ? replaced : caOnly ? [ca] : [...replaced, ca])
  const given: Authorities | undefined = ca === '' ? undefined : { ca, caOnly }
  process.getBuiltinModule('node:worker_threads').setEnvironmentData(KEY, given)
  return true
}
