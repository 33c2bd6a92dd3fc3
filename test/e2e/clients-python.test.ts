/** Python client libraries, with the cases of clients.test.ts. Each runs in the Python environment with its version. */
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createServer } from 'node:tls'
import { selfSigned } from '../support/certificate.ts'
import { CALLS, CITY, type Formats, PROVIDERS, startFormats, TEXT } from './support/formats.ts'
import { skipPython, testPython } from './support/python.ts'

const LIBRARIES = [
  { module: 'client_anthropic', environment: 'python', about: 'anthropic' },
  { module: 'client_bedrock', environment: 'python', about: 'anthropic' },
  { module: 'client_vertex', environment: 'python', about: 'anthropic' },
  { module: 'client_boto3', environment: 'python', about: 'boto3', isSecure: true },
  { module: 'client_google', environment: 'python', about: 'google-genai' },
  { module: 'client_google_vertex', environment: 'python', about: 'google-genai' },
  { module: 'client_llamaindex', environment: 'llamaindex', about: 'llama-index-llms-openai-like' },
] as const

let formats: Formats
const certificate = selfSigned()
/** TLS in front of the gateway: boto3 sends a token to no other address. */
const front = createServer(certificate, (socket) => {
  const gateway = connect(Number(new URL(formats.gateway.url).port), '127.0.0.1')
  socket.on('error', () => gateway.destroy())
  gateway.on('error', () => socket.destroy())
  socket.pipe(gateway).pipe(socket)
})
before(async () => {
  formats = await startFormats()
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
  writeFileSync(join(formats.gateway.folder, 'front.pem'), certificate.cert)
})
after(async () => {
  front.close()
  await formats?.stop()
})

/** Its address, with the base path of the gateway. */
const securely = (url: string) => {
  const { pathname } = new URL(url)
  // A server that listens on a port has this form of address.
  const { port } = front.address() as AddressInfo
  return `https://127.0.0.1:${port}${pathname.replace(/\/$/, '')}`
}

const environmentVariables = () => ({
  HOME: formats.gateway.folder,
  AWS_BEARER_TOKEN_BEDROCK: 'any',
  AWS_CA_BUNDLE: join(formats.gateway.folder, 'front.pem'),
})

for (const { module, environment, about, ...rest } of LIBRARIES)
  test(`${about} for Python, ${module}`, { skip: skipPython(environment) }, (t) => {
    const given = {
      module,
      url: 'isSecure' in rest ? securely(formats.gateway.url) : formats.gateway.url,
      providers: Object.values(PROVIDERS),
      text: TEXT,
      calls: CALLS,
      city: CITY,
    }
    const cases = 6 * Object.keys(PROVIDERS).length
    return testPython(t, {
      script: 'clients.py',
      given,
      environment,
      about,
      env: environmentVariables(),
      cases,
    })
  })

test('SDKs of clouds for Python: counting, embeddings, lists and files', { skip: skipPython() }, (t) => {
  const { url } = formats.gateway
  const given = { url, secure: securely(url), model: PROVIDERS.messages }
  return testPython(t, { script: 'clouds.py', given, about: 'boto3', env: environmentVariables(), cases: 12 })
})
