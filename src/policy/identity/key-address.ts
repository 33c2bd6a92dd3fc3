/** Whether keys may be fetched from an address: anyone who can change them on the way can sign tokens. */
export const isKeyAddress = (address: string): boolean => {
  if (!URL.canParse(address)) return false
  const { protocol, hostname, username, password, hash } = new URL(address)
  if (username !== '' || password !== '' || hash !== '') return false
  return protocol === 'https:' || (protocol === 'http:' && /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname))
}

/** Where an issuer states the place of its keys (OpenID Connect Discovery 1.0, section 4). */
export const discoveryAddress = (issuer: string): string =>
  `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
