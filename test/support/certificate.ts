import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

export type Certificate = { readonly key: string; readonly cert: string }

/**
 * Generates a self-signed certificate for 127.0.0.1 and localhost, so that the repository holds no key. `wrong`: a
 * defect that makes it invalid even if it is trusted.
 */
export const selfSigned = (wrong?: 'expired' | 'another host'): Certificate => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const spki = publicKey.export({ type: 'spki', format: 'der' })
  const algorithm = sequence(oid([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]))
  const host = wrong === 'another host' ? 'somewhere.else.test' : 'localhost'
  const commonName = sequence(oid([0x55, 0x04, 0x03]), der(0x0c, Buffer.from(host)))
  const name = sequence(der(0x31, commonName))
  const day = 86_400_000
  const validity = sequence(time(Date.now() - 3 * day), time(Date.now() + (wrong === 'expired' ? -day : day)))
  const names =
    wrong === 'another host'
      ? sequence(der(0x82, Buffer.from(host)))
      : sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.from([127, 0, 0, 1])))
  const subjectAltName = sequence(oid([0x55, 0x1d, 0x11]), der(0x04, names))
  const authority = sequence(
    oid([0x55, 0x1d, 0x13]),
    der(0x01, Buffer.from([0xff])),
    der(0x04, sequence(der(0x01, Buffer.from([0xff])))),
  )
  const keyId = createHash('sha1').update(spki).digest()
  const subjectKey = sequence(oid([0x55, 0x1d, 0x0e]), der(0x04, der(0x04, keyId)))
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name,
    validity,
    name,
    spki,
    der(0xa3, sequence(authority, subjectAltName, subjectKey)),
  )
  const signature = sign('sha256', body, privateKey)
  const certificate = sequence(body, algorithm, der(0x03, Buffer.concat([Buffer.from([0]), signature])))
  const lines = certificate.toString('base64').replace(/.{1,64}/g, '$&\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`,
  }
}

/** Encodes a value in DER: tag, length, content. */
const der = (tag: number, content: Buffer): Buffer => {
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: Buffer[]): Buffer => der(0x30, Buffer.concat(parts))
const oid = (bytes: number[]): Buffer => der(0x06, Buffer.from(bytes))
const time = (ms: number): Buffer =>
  der(0x18, Buffer.from(`${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))
