/** Words of the first steps on the overview. */
import { words } from './words.ts'

export const firstRun = words({
  title: 'First steps',
  done: 'done',
  open: 'to do',
  send: {
    title: 'Send a demo request',
    demo: 'No provider is configured, so the built-in demo answers. Nothing leaves this machine, and it costs nothing.',
    real: 'Send a first request in the playground.',
    button: 'Send a demo request',
    playground: 'Open the playground',
    sending: 'Sending…',
  },
  answered: (by: string, time: string) => `Answered by ${by} in ${time}.`,
  failed: (message: string) => `Failed: ${message}`,
  openRequest: 'Open the request',
  provider: {
    title: 'Add a provider',
    about: 'Restart with the key of a provider, or with the address of a local server. The file .env works too.',
    have: (names: string) => `Configured: ${names}.`,
    all: 'All providers',
  },
  client: {
    title: 'Point a client at it',
    about: 'Every client of the OpenAI or Anthropic API works. Choose one for its settings:',
    seen: (names: string) => `Requests came from ${names}.`,
    more: 'More clients',
  },
  chain: {
    title: 'See a fallback',
    about: 'The route demo/chain tries three models: the first always fails, the second fails sometimes.',
    button: 'Call demo/chain',
  },
  notAllowed: 'Sending requests needs the role operator.',
})
