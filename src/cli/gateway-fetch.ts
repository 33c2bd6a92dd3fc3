/** `fetch` for commands: also to a gateway on a Unix socket, and with a certificate of the client. */
import { readFile } from 'node:fs/promises'
import type { Env } from '../config/env.ts'
import { CliError, EXIT } from './cli.ts'

/** The URL of a gateway on a socket, as nginx writes it: `http://unix:/run/headgate.sock:/base`. The host of requests is `localhost`. */
const ON_SOCKET = /^(https?:\/\/)unix:(\/[^:]*):?(.*)$/

/** Files (PEM) with the certificate that commands show a gateway with `tls.clientAuth`, and its key. */
const CERTIFICATE = 'HEADGATE_CLIENT_CERT'
const KEY = 'HEADGATE_CLIENT_KEY'

/** As `fetch`. Throws `CliError` for a certificate that cannot be read. */
export const gatewayFetch = async (env: Env, url: string, init: RequestInit): Promise<Response> => {
  const [, scheme = '', socketPath, rest = ''] = ON_SOCKET.exec(url) ?? []
  const target = socketPath === undefined ? url : `${scheme}localhost${rest}`
  const certificate = target.startsWith('https:') ? await clientCertificate(env) : null
  if (socketPath === undefined && certificate === null) return fetch(target, init)
  const { Agent, fetch: fetchWith } = await import('undici')
  const dispatcher = new Agent({ connect: { ...certificate, ...(socketPath !== undefined && { socketPath }) } })
  // The classes of undici are those that Node has, with a name of their own for each type.
  const sent = { ...init, dispatcher } as Parameters<typeof fetchWith>[1]
  return (await fetchWith(target, sent)) as unknown as Response
}

type ClientCertificate = { readonly cert: string; readonly key: string }

const clientCertificate = async (env: Env): Promise<ClientCertificate | null> => {
  const [cert = '', key = ''] = [env[CERTIFICATE], env[KEY]]
  if (cert === '' && key === '') return null
  if (cert === '' || key === '') throw new CliError(EXIT.usage, `Set ${CERTIFICATE} and ${KEY}, or neither.`)
  return { cert: await readPem(CERTIFICATE, cert), key: await readPem(KEY, key) }
}

const readPem = async (name: string, path: string): Promise<string> => {
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new CliError(EXIT.usage, `${name}: ${error.message}`)
  })
  if (!text.includes('-----BEGIN')) throw new CliError(EXIT.usage, `${name}: ${path} is no file in PEM.`)
  return text
}
