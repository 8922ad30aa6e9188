#include "fake.h"
#include <stdio.h>
#include <string.h>

CUresult cuInit(unsigned flags)
{
	CUresult failed;
	int i, live = 0;

	if (flags)
		return INVALID_VALUE;
	pthread_mutex_lock(&M.lock);
	for (i = 0; i < MAX_DEVICES; i++)
		live += M.contexts[i].retained;
	if (!live)
		configure();
	else
		read_failures(); /* so that a test can end what it injected */
	M.initialized = 1;
	pthread_mutex_unlock(&M.lock);
	failed = injected("cuInit");
	if (!failed && !M.count)
		failed = NO_DEVICE;
	if (failed)
		M.initialized = 0;
	return failed;
}

/* Works before cuInit, as the real one does. */
CUresult cuDriverGetVersion(int *v)
{
	*v = M.driver ? M.driver : 12080;
	return OK;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ OK, "CUDA_SUCCESS", "no error" },
	{ INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ 34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library" },
	{ NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
	{ PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices" },
	{ INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled" },
	{ PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled" },
	{ HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped" },
	{ HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ 802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized" },
	{ 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult describe(CUresult r, const char **s, int text)
{
	size_t i;

	for (i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == r) {
			*s = text ? errors[i].text : errors[i].name;
			return OK;
		}
	*s = NULL;
	return INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult r, const char **s)
{
	return describe(r, s, 0);
}

CUresult cuGetErrorString(CUresult r, const char **s)
{
	return describe(r, s, 1);
}

CUresult cuDeviceGetCount(int *n)
{
	ENTER("cuDeviceGetCount");
	*n = M.count;
	return OK;
}

CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
	ENTER("cuDeviceGet");
	if (ordinal < 0 || ordinal >= M.count)
		return INVALID_DEVICE;
	*d = ordinal;
	return OK;
}

static int bad(CUdevice d)
{
	return d < 0 || d >= M.count;
}

CUresult cuDeviceGetName(char *s, int n, CUdevice d)
{
	ENTER("cuDeviceGetName");
	if (bad(d))
		return INVALID_DEVICE;
	snprintf(s, (size_t)n, "%s", M.name);
	return OK;
}

CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice d)
{
	unsigned char *u = uuid;

	ENTER("cuDeviceGetUuid_v2");
	if (bad(d))
		return INVALID_DEVICE;
	memset(u, 0, 16);
	memcpy(u, "hopbench", 8);
	u[15] = (unsigned char)M.visible[d];
	if (M.mig)
		u[14] = 1; /* an instance has a UUID of its own */
	return OK;
}

CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d)
{
	ENTER("cuDeviceTotalMem_v2");
	if (bad(d))
		return INVALID_DEVICE;
	*n = (size_t)M.memory;
	return OK;
}

CUresult cuDeviceGetPCIBusId(char *s, int n, CUdevice d)
{
	ENTER("cuDeviceGetPCIBusId");
	if (bad(d))
		return INVALID_DEVICE;
	snprintf(s, (size_t)n, "%s", M.bus[M.visible[d]]);
	return OK;
}

CUresult cuDeviceGetAttribute(int *v, int attribute, CUdevice d)
{
	unsigned domain = 0, bus = 0, device = 0;

	ENTER("cuDeviceGetAttribute");
	if (bad(d))
		return INVALID_DEVICE;
	sscanf(M.bus[M.visible[d]], "%x:%x:%x", &domain, &bus, &device);
	switch (attribute) {
	case 33: *v = (int)bus; break;
	case 34: *v = (int)device; break;
	case 50: *v = (int)domain; break;
	case 40: *v = 3; break;  /* ASYNC_ENGINE_COUNT */
	case 41: *v = 1; break;  /* UNIFIED_ADDRESSING */
	case 75: *v = 9; break;  /* COMPUTE_CAPABILITY_MAJOR */
	case 76: *v = 0; break;
	case 116: *v = M.gdr; break;
	case 117: *v = 1; break;
	case 118: *v = 100; break;
	case 124: *v = M.dmabuf; break;
	default: return INVALID_VALUE;
	}
	return OK;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	ENTER("cuDevicePrimaryCtxRetain");
	if (bad(d))
		return INVALID_DEVICE;
	pthread_mutex_lock(&M.lock);
	*c = &M.contexts[M.visible[d]];
	(*c)->retained++;
	pthread_mutex_unlock(&M.lock);
	return OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
	CUcontext c;

	ENTER("cuDevicePrimaryCtxRelease_v2");
	if (bad(d))
		return INVALID_DEVICE;
	c = &M.contexts[M.visible[d]];
	pthread_mutex_lock(&M.lock);
	if (c->retained && --c->retained == 0)
		c->peers = 0;
	pthread_mutex_unlock(&M.lock);
	return OK;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
	ENTER("cuCtxSetCurrent");
	if (c && !c->retained)
		return INVALID_CONTEXT;
	current = c;
	return OK;
}

CUresult cuCtxGetCurrent(CUcontext *c)
{
	ENTER("cuCtxGetCurrent");
	*c = current;
	return OK;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice from, CUdevice to)
{
	ENTER("cuDeviceCanAccessPeer");
	if (bad(from) || bad(to))
		return INVALID_DEVICE;
	*can = M.reach[M.visible[from]][M.visible[to]];
	return OK;
}

CUresult cuDeviceGetP2PAttribute(int *v, int attribute, CUdevice from, CUdevice to)
{
	ENTER("cuDeviceGetP2PAttribute");
	if (bad(from) || bad(to) || from == to)
		return INVALID_DEVICE;
	if (attribute < 1 || attribute > 4)
		return INVALID_VALUE;
	*v = attribute == 1 ? 0 : M.reach[M.visible[from]][M.visible[to]];
	return OK;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	CUresult r = OK;

	ENTER_CONTEXT("cuCtxEnablePeerAccess");
	if (!peer || peer == current)
		return INVALID_DEVICE;
	if (flags)
		return INVALID_VALUE;
	if (!M.reach[current->physical][peer->physical])
		return PEER_ACCESS_UNSUPPORTED;
	pthread_mutex_lock(&M.lock);
	if (current->peers & (1u << peer->physical))
		r = PEER_ACCESS_ALREADY_ENABLED;
	current->peers |= 1u << peer->physical;
	pthread_mutex_unlock(&M.lock);
	return r;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult r = OK;

	ENTER_CONTEXT("cuCtxDisablePeerAccess");
	pthread_mutex_lock(&M.lock);
	if (!(current->peers & (1u << peer->physical)))
		r = PEER_ACCESS_NOT_ENABLED;
	current->peers &= ~(1u << peer->physical);
	pthread_mutex_unlock(&M.lock);
	return r;
}
