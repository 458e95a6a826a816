/* A PAM module that asks for a second factor by a menu, as the ones that send a request to a phone do.
 *
 * Its one argument is a folder. The request is accepted when a file "accept" lies there, and refused
 * when "refuse" does; either is taken away. After 60 s it is refused. The file "automatic" makes it
 * send a request at once and ask nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <security/pam_ext.h>
#include <security/pam_modules.h>

#define ROUNDS 3
#define CODE "246810"

static const char menu[] =
    "Second factor for %s\n"
    "\n"
    "Type a code, or choose one of these:\n"
    "\n"
    " 1. Request to the phone of %s (ends in 1234), which runs the application of this institute\n"
    " 2. Call to the phone of %s (ends in 1234), in which a key has to be pressed at the end\n"
    " 3. Request to the tablet of %s (ends in 5678), which runs the application of this institute\n"
    " 4. New codes by text message to the phone of %s (ends in 1234), next one starts with 7\n"
    "\n"
    "Code or option (1-4): ";

static int
taken(const char *folder, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return unlink(path) == 0;
}

static int
exists(const char *folder, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static int
accepted(const char *folder)
{
	const struct timespec pause = { 0, 20 * 1000 * 1000 };

	for (int left = 60 * 50; left > 0; left--) {
		if (taken(folder, "accept"))
			return 1;
		if (taken(folder, "refuse"))
			return 0;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int
pam_sm_authenticate(pam_handle_t *pam, int flags, int argc, const char **argv)
{
	const char *user = NULL, *folder = argc ? argv[0] : "/nowhere";

	(void)flags;
	if (pam_get_user(pam, &user, NULL) != PAM_SUCCESS)
		return PAM_AUTH_ERR;
	if (exists(folder, "automatic"))
		return accepted(folder) ? PAM_SUCCESS : PAM_AUTH_ERR;
	for (int round = 0; round < ROUNDS; round++) {
		char *answer = NULL;
		int right, asked;

		if (pam_prompt(pam, PAM_PROMPT_ECHO_ON, &answer, menu, user, user, user, user, user) !=
		    PAM_SUCCESS || answer == NULL)
			return PAM_AUTH_ERR;
		right = strcmp(answer, CODE) == 0;
		asked = strcmp(answer, "1") == 0 || strcmp(answer, "2") == 0 || strcmp(answer, "3") == 0;
		free(answer);
		if (right || (asked && accepted(folder)))
			return PAM_SUCCESS;
		pam_error(pam, asked ? "The request was refused." : "That is no code and no option.");
	}
	return PAM_AUTH_ERR;
}

int
pam_sm_setcred(pam_handle_t *pam, int flags, int argc, const char **argv)
{
	(void)pam, (void)flags, (void)argc, (void)argv;
	return PAM_SUCCESS;
}
