package fault

// Codes of the RDMA verbs drivers.
const ()

var verbsRows = []Row{}
