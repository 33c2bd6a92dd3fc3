/** Signs requests as specified by Standard Webhooks (github.com/standard-webhooks/standard-webhooks). */
import { createHmac } from 'node:crypto'

const ENCODED_SECRET = 'whsec_'

/** `v1,` and the signature, in base64. A secret that begins `whsec_` is base64. `timestamp`: s since 1970. */
export const signatureOf = (secret: string, id: string, timestamp: number, body: string): string => {
  const key = secret.startsWith(ENCODED_SECRET)
    ? Buffer.from(secret.slice(ENCODED_SECRET.length), 'base64')
    : Buffer.from(secret, 'utf8')
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}
