/* A security key in software, as OpenSSH's agent loads one (ssh-add -S LIBRARY).
 *
 * It makes and uses ed25519-sk keys. Like a key in a USB port it signs only after a touch: a file
 * appears at $SECURITY_KEY_FINGER, and is taken away. After $SECURITY_KEY_PATIENCE seconds without
 * one it gives up. The interface is that of OpenSSH's PROTOCOL.u2f.
 */
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ED25519 1
#define TOUCH 1
#define FAILED -1
#define UNSUPPORTED -2

struct sk_option {
	char *name;
	char *value;
	uint8_t required;
};

struct sk_enroll_response {
	uint8_t flags;
	uint8_t *public_key;
	size_t public_key_len;
	uint8_t *key_handle;
	size_t key_handle_len;
	uint8_t *signature;
	size_t signature_len;
	uint8_t *attestation_cert;
	size_t attestation_cert_len;
	uint8_t *authdata;
	size_t authdata_len;
};

struct sk_sign_response {
	uint8_t flags;
	uint32_t counter;
	uint8_t *sig_r;
	size_t sig_r_len;
	uint8_t *sig_s;
	size_t sig_s_len;
};

struct sk_resident_key;

uint32_t sk_api_version(void);
int sk_enroll(uint32_t, const uint8_t *, size_t, const char *, uint8_t, const char *,
    struct sk_option **, struct sk_enroll_response **);
int sk_sign(uint32_t, const uint8_t *, size_t, const char *, const uint8_t *, size_t, uint8_t,
    const char *, struct sk_option **, struct sk_sign_response **);
int sk_load_resident_keys(const char *, struct sk_option **, struct sk_resident_key ***, size_t *);

uint32_t
sk_api_version(void)
{
	return 0x000a0000;
}

/* The handle of a key is its seed: the key itself remembers nothing. */
int
sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len, const char *application,
    uint8_t flags, const char *pin, struct sk_option **options, struct sk_enroll_response **made)
{
	struct sk_enroll_response *found = calloc(1, sizeof(*found));
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

	(void)challenge, (void)challenge_len, (void)application, (void)pin, (void)options;
	if (alg != ED25519)
		return UNSUPPORTED;
	if (found == NULL || key == NULL)
		return FAILED;
	found->flags = flags;
	found->public_key_len = found->key_handle_len = 32;
	found->public_key = calloc(1, 32);
	found->key_handle = calloc(1, 32);
	found->signature = calloc(1, 1);
	found->attestation_cert = calloc(1, 1);
	found->authdata = calloc(1, 1);
	if (EVP_PKEY_get_raw_public_key(key, found->public_key, &found->public_key_len) != 1 ||
	    EVP_PKEY_get_raw_private_key(key, found->key_handle, &found->key_handle_len) != 1)
		return FAILED;
	EVP_PKEY_free(key);
	*made = found;
	return 0;
}

static int
touched(void)
{
	const char *finger = getenv("SECURITY_KEY_FINGER"), *patience = getenv("SECURITY_KEY_PATIENCE");
	const struct timespec blink = { 0, 20 * 1000 * 1000 };
	int left = 50 * (patience ? atoi(patience) : 30);

	for (; finger && left > 0; left--) {
		if (unlink(finger) == 0)
			return 1;
		nanosleep(&blink, NULL);
	}
	return 0;
}

int
sk_sign(uint32_t alg, const uint8_t *data, size_t data_len, const char *application,
    const uint8_t *handle, size_t handle_len, uint8_t flags, const char *pin,
    struct sk_option **options, struct sk_sign_response **made)
{
	struct sk_sign_response *found = calloc(1, sizeof(*found));
	uint8_t text[32 + 1 + 4 + 32], *at = text;
	uint32_t counter = (uint32_t)time(NULL);
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	EVP_PKEY *key;

	(void)pin, (void)options;
	if (alg != ED25519)
		return UNSUPPORTED;
	key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, handle, handle_len);
	if (found == NULL || digest == NULL || key == NULL)
		return FAILED;
	if ((flags & TOUCH) && !touched())
		return FAILED;
	SHA256((const uint8_t *)application, strlen(application), at);
	at += 32;
	*at++ = flags;
	for (int shift = 24; shift >= 0; shift -= 8)
		*at++ = (uint8_t)(counter >> shift);
	SHA256(data, data_len, at);
	found->flags = flags;
	found->counter = counter;
	found->sig_r_len = 64;
	found->sig_r = calloc(1, 64);
	if (EVP_DigestSignInit(digest, NULL, NULL, NULL, key) != 1 ||
	    EVP_DigestSign(digest, found->sig_r, &found->sig_r_len, text, sizeof(text)) != 1)
		return FAILED;
	EVP_MD_CTX_free(digest);
	EVP_PKEY_free(key);
	*made = found;
	return 0;
}

int
sk_load_resident_keys(const char *pin, struct sk_option **options, struct sk_resident_key ***keys,
    size_t *count)
{
	(void)pin, (void)options, (void)keys, (void)count;
	return UNSUPPORTED;
}
