/** Python client libraries, with the cases of clients.test.ts. Each runs in the Python environment with its version. */
import { after, before, test } from 'node:test'
import { CALLS, CITY, type Formats, PROVIDERS, startFormats, TEXT } from './support/formats.ts'
import { skipPython, testPython } from './support/python.ts'

const LIBRARIES = [
  { module: 'client_anthropic', environment: 'python', about: 'anthropic' },
  { module: 'client_bedrock', environment: 'python', about: 'anthropic' },
  { module: 'client_google', environment: 'python', about: 'google-genai' },
  { module: 'client_llamaindex', environment: 'llamaindex', about: 'llama-index-llms-openai-like' },
] as const

let formats: Formats
before(async () => {
  formats = await startFormats()
})
after(() => formats?.stop())

for (const { module, environment, about } of LIBRARIES)
  test(`${about} for Python, ${module}`, { skip: skipPython(environment) }, (t) => {
    const given = {
      module,
      url: formats.gateway.url,
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
      env: { HOME: formats.gateway.folder },
      cases,
    })
  })
