def classify(known, labels, unknown):
    """A support vector machine with a Gaussian kernel."""
    from sklearn.svm import SVC

    margin = evened(SVC(C=SVM_C)).fit(known, labels).decision_function(unknown)
    return 1 / (1 + np.exp(-2 * margin))
