/** The certificates of the port: read at the start, and again when a file changes or on SIGHUP. */
import { watchFile } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import type { Settings } from '../core/settings.ts'
import type { Log } from '../observe/log.ts'
import type { Reading } from '../observe/registry.ts'
import type { OpenListener } from '../transport/server/http-server.ts'
import { readyTls, type TlsFiles, TlsListener } from '../transport/server/tls-listener.ts'

type TlsSettings = Settings['tls']

/** ms. */
const TIMES = { handshake: 10_000, poll: 750, settle: 150 }
const DAY = 86_400_000
/** Days before the end of a certificate from which the log warns. */
const WARN_DAYS = 30

/** The certificates of this process. */
export type InboundTls = {
  readonly open: OpenListener
  /** Reads the files now. */
  readonly reload: () => Promise<void>
  /** `headgate_tls_not_after_seconds`. */
  readonly readings: () => readonly Reading[]
  /** `notAfter`: ms since 1970. */
  readonly certificates: () => readonly { readonly file: string; readonly notAfter: number }[]
}

const read = async ({ cert, key, clientCa, clientAuth }: TlsSettings): Promise<TlsFiles> => {
  if (cert.length !== key.length)
    throw new Error(`tls.cert has ${cert.length} files and tls.key ${key.length}; write a key for each certificate`)
  if (clientAuth !== 'none' && clientCa === undefined)
    throw new Error(`tls.clientAuth is ${clientAuth} without tls.clientCa`)
  const text = (path: string) =>
    readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw new Error(`${path} cannot be read (${error.code})`)
    })
  const pairs = cert.map(async (file, at) => ({ file, cert: await text(file), key: await text(key[at] ?? '') }))
  return {
    pairs: await Promise.all(pairs),
    clientCa: clientCa === undefined ? undefined : await text(clientCa),
    clientAuth,
  }
}

/** Reads until two reads agree, at most ten times: a certificate and its key are replaced one after the other. */
const readSettled = async (settings: TlsSettings): Promise<TlsFiles> => {
  let last = await read(settings)
  for (let tries = 0; tries < 10; tries++) {
    await wait(TIMES.settle)
    const next = await read(settings)
    const isSame = JSON.stringify(next) === JSON.stringify(last)
    last = next
    if (isSame) break
  }
  return last
}

/** Opens the certificates. Rejects with an error whose message is for the operator. */
export const openInboundTls = async (settings: TlsSettings, log: Log): Promise<InboundTls> => {
  let used = await read(settings)
  const listener = new TlsListener(readyTls(used), TIMES.handshake)
  const warn = () => {
    for (const { file, notAfter } of listener.ready.pairs) {
      const days = Math.floor((notAfter - Date.now()) / DAY)
      if (days < WARN_DAYS)
        log.warn('tls', {
          file,
          message: days < 0 ? 'The certificate has expired.' : `The certificate expires in ${days} days.`,
        })
    }
  }
  const reload = async () => {
    try {
      const files = await readSettled(settings)
      if (JSON.stringify(files) === JSON.stringify(used)) return
      const ready = readyTls(files)
      const now = Date.now()
      const expired = ready.pairs.find(
        ({ notAfter }, at) => notAfter < now && (listener.ready.pairs[at]?.notAfter ?? 0) >= now,
      )
      if (expired) throw new Error(`${expired.file} has expired`)
      used = files
      listener.replace(ready)
      log.info('tls', { message: 'New certificates are in use for new connections.' })
      warn()
    } catch (error) {
      // Messages of `read` and `readyTls` contain names of files only.
      const problem = error instanceof Error ? error.message : String(error)
      log.error('tls', { message: `The certificates on disk are not used, the earlier ones stay: ${problem}.` })
    }
  }
  let reloading = Promise.resolve()
  const schedule = () => {
    reloading = reloading.then(reload)
    return reloading
  }
  const onChange = () => void schedule()
  const paths = [...settings.cert, ...settings.key, ...(settings.clientCa === undefined ? [] : [settings.clientCa])]
  for (const path of paths) watchFile(path, { interval: TIMES.poll, persistent: false }, onChange).unref()
  warn()
  return {
    open: listener.open,
    reload: schedule,
    readings: () => tlsReadings(listener.ready.pairs),
    certificates: () => listener.ready.pairs.map(({ file, notAfter }) => ({ file, notAfter })),
  }
}

/** The end of each certificate. `notAfter`: ms since 1970. */
export const tlsReadings = (
  pairs: readonly { readonly file: string; readonly notAfter: number }[],
): readonly Reading[] =>
  pairs.map(({ file, notAfter }) => ({
    name: 'tls_not_after_seconds',
    help: 'End of a certificate of the port, in s since 1970.',
    labels: { file },
    value: notAfter / 1_000,
  }))
